import { and, eq, gt, isNull } from "drizzle-orm";
import type { Database } from "./client.ts";
import { won } from "./client.ts";
import { invitations } from "./schema.ts";

const usable = (codeHash: string, now: number) =>
  and(eq(invitations.code_hash, codeHash), isNull(invitations.used_at), gt(invitations.expires_at, now));

/** Whether an invitation could be used now. */
export async function invitationStands(db: Database, codeHash: string, now: number): Promise<boolean> {
  const [row] = await db
    .select({ code_hash: invitations.code_hash })
    .from(invitations)
    .where(usable(codeHash, now));
  return row !== undefined;
}

/** Uses an invitation up. Of any number at once, one gets it. */
export const useInvitation = async (db: Database, codeHash: string, now: number) =>
  won(await db.update(invitations).set({ used_at: now }).where(usable(codeHash, now)));
