import { and, eq, or, sql } from "drizzle-orm";
import type { CompleteResponse } from "../protocol/relay-api.ts";
import type { CommandState } from "../protocol/states.ts";
import type { Answer, CompleteCall } from "./contract.ts";
import { noteSign, refusal } from "./devices.ts";
import { commands, keptOut, payloads } from "./schema.ts";
import { ENDS, given, inState, keptUntil, ofDevice, type Scope, statements } from "./scope.ts";

const askedToStop = sql`${commands.cancel_requested_at} is not null`;
const ended = { seq: commands.seq, status: commands.state };

const to = statements((db) => ({
  /**
   * running or lost → outcome, for the attempt that started it. A run that was told to stop ends
   * `cancelled` whatever came of it; the record then says that it had finished first, unless the relay knows
   * that it had not.
   */
  end: db
    .update(commands)
    .set({
      state: sql`case when ${askedToStop} then 'cancelled' else ${given("status")} end`,
      finished_before_stop: sql`coalesce(${given("finished_before_stop")}, ${askedToStop} and ${given("status")} <> 'cancelled')`,
      late: inState("lost"),
      ...ENDS,
    })
    .where(
      and(ofDevice, or(inState("running"), inState("lost")), eq(commands.attempt_id, given("attempt_id"))),
    )
    .returning(ended)
    .prepare(),
  /** queued → cancelled: the owner's consent was withdrawn before the start. */
  withdraw: db
    .update(commands)
    .set({ state: "cancelled", attempt_id: given("attempt_id"), ...ENDS })
    .where(and(ofDevice, inState("queued"), sql`${given("status")} = 'cancelled'`))
    .returning(ended)
    .prepare(),
  storeOutcome: db
    .update(payloads)
    .set({ outcome_json: given("outcome_json") })
    .where(eq(payloads.seq, given("seq")))
    .prepare(),
  standing: db
    .select({ ...ended, attempt_id: commands.attempt_id, outcome_json: payloads.outcome_json })
    .from(commands)
    .innerJoin(payloads, eq(payloads.seq, commands.seq))
    .where(ofDevice)
    .prepare(),
}));

/** Records how a run ended (the table of design section 3). Every answer but a refusal means: do not send it again. */
export function complete(scope: Scope, call: CompleteCall): Answer<CompleteResponse> {
  const { device_id, command_id, completion } = call;
  if (!noteSign(scope, device_id)) return refusal("device_removed");
  const attempt_id = call.attempt_id ?? null;
  const outcome_json = JSON.stringify(completion);
  const values = {
    device_id,
    command_id,
    attempt_id,
    status: completion.status,
    finished_before_stop: toFlag(completion.finished_before_stop),
    now: scope.now,
    kept_until: keptUntil(scope),
  };
  const won = to(scope).end.get(values) ?? to(scope).withdraw.get(values);
  if (won) {
    to(scope).storeOutcome.run({ seq: won.seq, outcome_json });
    scope.effects.changed(command_id);
    scope.effects.due(values.kept_until);
    return recorded("stored", won.status);
  }
  const standing = to(scope).standing.get(values);
  if (!standing) return refusal("command_not_found");
  if (standing.outcome_json === outcome_json && standing.attempt_id === attempt_id)
    return recorded("already_stored", standing.status);
  keepOut(scope, standing.seq, call);
  return recorded("kept_out", standing.status);
}

const toFlag = (value: boolean | undefined) => (value === undefined ? null : Number(value));

const recorded = (record: CompleteResponse["record"], status: CommandState): Answer<CompleteResponse> => ({
  ok: true,
  value: { record, status },
});

/** What is not the command's outcome leaves a note; the relay's own history has all of it. */
function keepOut({ db, now }: Scope, seq: number, { attempt_id = null, completion }: KeptOut): void {
  const note = { last_at: now, attempt_id, execution_id: completion.execution_id, status: completion.status };
  db.insert(keptOut)
    .values({ seq, times: 1, ...note })
    .onConflictDoUpdate({ target: keptOut.seq, set: { ...note, times: sql`${keptOut.times} + 1` } })
    .run();
}
type KeptOut = { attempt_id?: string | null } & Pick<CompleteCall, "completion">;
