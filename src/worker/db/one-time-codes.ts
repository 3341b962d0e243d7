import { and, eq, gt, isNull } from "drizzle-orm";
import type { Database, Statement } from "./client.ts";
import { oneTimeCodes } from "./schema.ts";

type Purpose = (typeof oneTimeCodes.$inferSelect)["purpose"];

/** The statement that makes a code count. */
export const oneTimeCodeInsert = (
  db: Database,
  code: { codeHash: string; purpose: Purpose; accountId: string; expiresAt: number },
): Statement =>
  db.insert(oneTimeCodes).values({
    code_hash: code.codeHash,
    purpose: code.purpose,
    account_id: code.accountId,
    expires_at: code.expiresAt,
  });

/** Uses a code up and answers whose it is. Of any number at once, one gets it. */
export async function useOneTimeCode(
  db: Database,
  codeHash: string,
  purpose: Purpose,
  now: number,
): Promise<string | undefined> {
  const [row] = await db
    .update(oneTimeCodes)
    .set({ used_at: now })
    .where(
      and(
        eq(oneTimeCodes.code_hash, codeHash),
        eq(oneTimeCodes.purpose, purpose),
        isNull(oneTimeCodes.used_at),
        gt(oneTimeCodes.expires_at, now),
      ),
    )
    .returning({ account_id: oneTimeCodes.account_id });
  return row?.account_id;
}

/** Whose code this was, if it was used before and has not expired: a device that lost the answer asks again. */
export async function usedOneTimeCode(
  db: Database,
  codeHash: string,
  purpose: Purpose,
  now: number,
): Promise<string | undefined> {
  const [row] = await db
    .select({ account_id: oneTimeCodes.account_id })
    .from(oneTimeCodes)
    .where(
      and(
        eq(oneTimeCodes.code_hash, codeHash),
        eq(oneTimeCodes.purpose, purpose),
        gt(oneTimeCodes.expires_at, now),
      ),
    );
  return row?.account_id;
}
