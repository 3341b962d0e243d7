import { and, asc, inArray, isNotNull, lte, min, sql } from "drizzle-orm";
import { commands, keptOut, keyClaims, payloads } from "./schema.ts";
import { type Db, given, inState, type Scope, statements } from "./scope.ts";

/** Records deleted by one alarm; the next follows at once. About five rows each. */
const PURGE_BATCH = 200;

const ended = { id: commands.command_id };

const to = statements((db) => ({
  expire: db
    .update(commands)
    .set({
      state: "expired",
      finished_at: sql`${commands.expires_at}`,
      kept_until: sql`${commands.expires_at} + ${given("retention")}`,
    })
    .where(and(inState("queued"), lte(commands.expires_at, given("now"))))
    .returning(ended)
    .prepare(),
  lose: db
    .update(commands)
    .set({
      state: "lost",
      finished_at: sql`${commands.lease_until}`,
      kept_until: sql`${commands.lease_until} + ${given("retention")}`,
    })
    .where(and(inState("running"), lte(commands.lease_until, given("now"))))
    .returning(ended)
    .prepare(),
  findOver: db
    .select({ seq: commands.seq })
    .from(commands)
    .where(lte(commands.kept_until, given("now")))
    .orderBy(asc(commands.kept_until))
    .limit(PURGE_BATCH)
    .prepare(),
  dropClaims: db
    .delete(keyClaims)
    .where(
      sql`rowid in ${db
        .select({ id: sql`rowid` })
        .from(keyClaims)
        .where(lte(keyClaims.kept_until, given("now")))
        .limit(PURGE_BATCH)}`,
    )
    .prepare(),
  nextDue: [
    db
      .select({ at: min(commands.expires_at) })
      .from(commands)
      .where(inState("queued")),
    db
      .select({ at: min(commands.lease_until) })
      .from(commands)
      .where(inState("running")),
    db
      .select({ at: min(commands.kept_until) })
      .from(commands)
      .where(isNotNull(commands.kept_until)),
    db.select({ at: min(keyClaims.kept_until) }).from(keyClaims),
  ].map((query) => query.prepare()),
}));

/**
 * What time has done by now, done before every call, since an alarm may be late: queued → expired at
 * `expires_at`, running → lost at the end of its lease. Both moments are exclusive, and both are recorded
 * as they were due, not as they were noticed. The caps on queued commands bound what there is to do. When
 * such a record is to be deleted is left to the alarm that was set for this moment: it comes, and moves on.
 */
export function applyTime(scope: Scope): void {
  const values = { now: scope.now, retention: scope.settings.retention_seconds * 1000 };
  for (const { id } of [...to(scope).expire.all(values), ...to(scope).lose.all(values)])
    scope.effects.changed(id);
}

/** Deletes one batch of the records and claims that are past their time. */
export function purge(scope: Scope): void {
  const { now } = scope;
  const over = to(scope).findOver.all({ now });
  deleteRecords(
    scope.db,
    over.map((row) => row.seq),
  );
  to(scope).dropClaims.run({ now });
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
  const times = to({ db }).nextDue.flatMap((query) => query.get()?.at ?? []);
  return times.length === 0 ? null : Math.min(...times);
}
