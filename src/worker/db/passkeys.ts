import { and, asc, eq } from "drizzle-orm";
import type { Database, Statement } from "./client.ts";
import { passkeys } from "./schema.ts";

export type PasskeyRow = typeof passkeys.$inferSelect;

/** An account's passkeys, oldest first. */
export const passkeysOfAccount = (db: Database, accountId: string) =>
  db.select().from(passkeys).where(eq(passkeys.account_id, accountId)).orderBy(asc(passkeys.created_at));

export async function passkeyById(db: Database, credentialId: string): Promise<PasskeyRow | undefined> {
  const [row] = await db.select().from(passkeys).where(eq(passkeys.credential_id, credentialId));
  return row;
}

export const passkeyInsert = (db: Database, row: typeof passkeys.$inferInsert): Statement =>
  db.insert(passkeys).values(row);

export const passkeyUse = (db: Database, credentialId: string, counter: number, now: number): Statement =>
  db.update(passkeys).set({ counter, last_used_at: now }).where(eq(passkeys.credential_id, credentialId));

/** Removes a passkey of this account and answers its name. */
export async function removePasskey(
  db: Database,
  accountId: string,
  credentialId: string,
): Promise<string | undefined> {
  const [row] = await db
    .delete(passkeys)
    .where(and(eq(passkeys.credential_id, credentialId), eq(passkeys.account_id, accountId)))
    .returning({ name: passkeys.name });
  return row?.name;
}
