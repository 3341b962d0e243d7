import { and, asc, inArray, isNotNull, lte, min, sql } from "drizzle-orm";
import { commands, keptOut, keyClaims, payloads } from "./schema.ts";
import { type Db, inState, type Scope } from "./scope.ts";

/** Records deleted by one alarm; the next follows at once. About five rows each. */
const PURGE_BATCH = 200;

/**
 * What time has done by now, done before every call, since an alarm may be late: queued → expired at
 * `expires_at`, running → lost at the end of its lease. Both moments are exclusive, and both are recorded
 * as they were due, not as they were noticed. The caps on queued commands bound what there is to do.
 */
export function applyTime(scope: Scope): void {
  const { db, now, settings } = scope;
  const retention = settings.retention_seconds * 1000;
  const ended = { id: commands.command_id, kept_until: commands.kept_until };
  const expired = db
    .update(commands)
    .set({
      state: "expired",
      finished_at: sql`${commands.expires_at}`,
      kept_until: sql`${commands.expires_at} + ${retention}`,
    })
    .where(and(inState("queued"), lte(commands.expires_at, now)))
    .returning(ended)
    .all();
  const lost = db
    .update(commands)
    .set({
      state: "lost",
      finished_at: sql`${commands.lease_until}`,
      kept_until: sql`${commands.lease_until} + ${retention}`,
    })
    .where(and(inState("running"), lte(commands.lease_until, now)))
    .returning(ended)
    .all();
  for (const { id, kept_until } of [...expired, ...lost]) {
    scope.effects.changed(id);
    scope.effects.due(kept_until ?? now);
  }
}

/** Deletes one batch of the records and claims that are past their time. */
export function purge({ db, now }: Scope): void {
  const due = db
    .select({ seq: commands.seq })
    .from(commands)
    .where(lte(commands.kept_until, now))
    .orderBy(asc(commands.kept_until))
    .limit(PURGE_BATCH)
    .all();
  deleteRecords(
    db,
    due.map((row) => row.seq),
  );
  const claims = db
    .select({ id: sql`rowid` })
    .from(keyClaims)
    .where(lte(keyClaims.kept_until, now))
    .limit(PURGE_BATCH);
  db.delete(keyClaims).where(sql`rowid in ${claims}`).run();
}

/** Deletes commands with all that belongs to them. */
export function deleteRecords(db: Db, seqs: readonly number[]): void {
  if (seqs.length === 0) return;
  // One bound list, since a statement takes no more than 100 parameters.
  const list = sql`(select value from json_each(${JSON.stringify(seqs)}))`;
  db.delete(payloads).where(inArray(payloads.seq, list)).run();
  db.delete(keptOut).where(inArray(keptOut.seq, list)).run();
  db.delete(commands).where(inArray(commands.seq, list)).run();
}

/** When time next changes something, or `null` if nothing waits for it. */
export function nextDue(db: Db): number | null {
  const queued = db
    .select({ at: min(commands.expires_at) })
    .from(commands)
    .where(inState("queued"))
    .get();
  const running = db
    .select({ at: min(commands.lease_until) })
    .from(commands)
    .where(inState("running"))
    .get();
  const kept = db
    .select({ at: min(commands.kept_until) })
    .from(commands)
    .where(isNotNull(commands.kept_until))
    .get();
  const claimed = db
    .select({ at: min(keyClaims.kept_until) })
    .from(keyClaims)
    .get();
  const times = [queued, running, kept, claimed].flatMap((row) => row?.at ?? []);
  return times.length === 0 ? null : Math.min(...times);
}
