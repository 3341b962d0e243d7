import { and, eq } from "drizzle-orm";
import type { Database, Statement } from "./client.ts";
import { identities } from "./schema.ts";

/** Whose account a provider's person is. */
export async function accountOfIdentity(
  db: Database,
  issuer: string,
  subject: string,
): Promise<string | undefined> {
  const [row] = await db
    .select({ account_id: identities.account_id })
    .from(identities)
    .where(and(eq(identities.issuer, issuer), eq(identities.subject, subject)));
  return row?.account_id;
}

export const identityInsert = (db: Database, row: typeof identities.$inferInsert): Statement =>
  db.insert(identities).values(row);

export const identitiesOfAccount = (db: Database, accountId: string) =>
  db.select().from(identities).where(eq(identities.account_id, accountId));

/** The statement that unlinks an account from a provider. */
export const identityRemoval = (db: Database, accountId: string, issuer: string): Statement =>
  db.delete(identities).where(and(eq(identities.account_id, accountId), eq(identities.issuer, issuer)));
