import { and, eq, gt, isNull } from "drizzle-orm";
import type { Database } from "./client.ts";
import { won } from "./client.ts";
import { accounts, webSessions } from "./schema.ts";

/** Who is signed in with the cookie of this hash. */
export async function findWebSession(db: Database, sessionHash: string, now: number) {
  const [row] = await db
    .select({
      account_id: webSessions.account_id,
      account_name: accounts.name,
      authenticated_at: webSessions.authenticated_at,
    })
    .from(webSessions)
    .innerJoin(accounts, eq(accounts.id, webSessions.account_id))
    .where(
      and(
        eq(webSessions.session_hash, sessionHash),
        gt(webSessions.expires_at, now),
        isNull(accounts.deleted_at),
      ),
    );
  return row;
}

export const insertWebSession = (
  db: Database,
  session: { sessionHash: string; accountId: string; now: number; lifetimeMs: number },
) =>
  db.insert(webSessions).values({
    session_hash: session.sessionHash,
    account_id: session.accountId,
    created_at: session.now,
    authenticated_at: session.now,
    expires_at: session.now + session.lifetimeMs,
  });

export const deleteWebSession = async (db: Database, sessionHash: string) =>
  won(await db.delete(webSessions).where(eq(webSessions.session_hash, sessionHash)));
