import { systemClock } from "../protocol/ports.ts";
import { accessEnd, accountRows, leavingAccounts, markLeaving } from "./db/account-deletion.ts";
import { type Database, database } from "./db/client.ts";
import { everyProjectOfAccount } from "./db/project-deletion.ts";
import type { Env } from "./env.ts";
import { logFailure } from "./log.ts";

const ACCOUNTS_PER_SWEEP = 20;

/**
 * Deletes an account and everything held of it, in three steps that may each be repeated: every way in is
 * shut, the projects' objects are emptied, the rows go. If the second or third is cut off, the sweep goes on.
 */
export async function deleteAccount(env: Env, accountId: string): Promise<void> {
  const db = database(env.DB);
  await markLeaving(db, accountId, systemClock.now());
  await finish(env, db, accountId);
}

/** Goes on with deletions that were cut off. */
export async function finishDeletions(env: Env): Promise<void> {
  const db = database(env.DB);
  for (const { id } of await leavingAccounts(db, ACCOUNTS_PER_SWEEP)) {
    try {
      await finish(env, db, id);
    } catch (error) {
      logFailure(`account ${id} is not deleted yet:`, error);
    }
  }
}

async function finish(env: Env, db: Database, accountId: string): Promise<void> {
  await db.batch(accessEnd(db, accountId, systemClock.now()));
  for (const { id } of await everyProjectOfAccount(db, accountId))
    await env.PROJECT_QUEUE.getByName(id).destroy();
  await db.batch(accountRows(db, accountId));
}
