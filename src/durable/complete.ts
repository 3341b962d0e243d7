import { and, eq, or, type SQL, sql } from "drizzle-orm";
import type { Completion } from "../protocol/completion.ts";
import type { CompleteResponse } from "../protocol/relay-api.ts";
import type { CommandState } from "../protocol/states.ts";
import type { Answer, CompleteCall } from "./contract.ts";
import { noteSign, refusal } from "./devices.ts";
import { commands, keptOut, payloads } from "./schema.ts";
import { ending, inState, ofDevice, type Scope } from "./scope.ts";

/** Records how a run ended (the table of design section 3). Every answer but a refusal means: do not send it again. */
export function complete(scope: Scope, call: CompleteCall): Answer<CompleteResponse> {
  if (!noteSign(scope, call.device_id)) return refusal("device_removed");
  const own = ofDevice(scope, call.device_id, call.command_id);
  const outcome_json = JSON.stringify(call.completion);
  const attempt_id = call.attempt_id ?? null;
  const won =
    endRun(scope, own, attempt_id, call.completion) ?? withdraw(scope, own, attempt_id, call.completion);
  if (won) {
    scope.db.update(payloads).set({ outcome_json }).where(eq(payloads.seq, won.seq)).run();
    scope.effects.changed(call.command_id);
    scope.effects.due(ending(scope).kept_until);
    return recorded("stored", won.status);
  }
  const standing = scope.db
    .select({
      seq: commands.seq,
      status: commands.state,
      attempt_id: commands.attempt_id,
      outcome_json: payloads.outcome_json,
    })
    .from(commands)
    .innerJoin(payloads, eq(payloads.seq, commands.seq))
    .where(own)
    .get();
  if (!standing) return refusal("command_not_found");
  if (standing.outcome_json === outcome_json && standing.attempt_id === attempt_id)
    return recorded("already_stored", standing.status);
  keepOut(scope, standing.seq, attempt_id, call.completion);
  return recorded("kept_out", standing.status);
}

const recorded = (record: CompleteResponse["record"], status: CommandState): Answer<CompleteResponse> => ({
  ok: true,
  value: { record, status },
});

const ended = { seq: commands.seq, status: commands.state };

/**
 * running or lost → outcome, for the attempt that started it. A run that was told to stop ends `cancelled`
 * whatever came of it; the record then says that it had finished first.
 */
function endRun(scope: Scope, own: SQL | undefined, attempt_id: string | null, completion: Completion) {
  if (attempt_id === null) return undefined;
  const { status, finished_before_stop = false } = completion;
  const asked = sql`${commands.cancel_requested_at} is not null`;
  return scope.db
    .update(commands)
    .set({
      state: sql`case when ${asked} then 'cancelled' else ${status} end`,
      finished_before_stop: sql`${finished_before_stop ? 1 : 0} or (${asked} and ${status} <> 'cancelled')`,
      late: sql`${inState("lost")}`,
      ...ending(scope),
    })
    .where(and(own, or(inState("running"), inState("lost")), eq(commands.attempt_id, attempt_id)))
    .returning(ended)
    .get();
}

/** queued → cancelled: the owner's consent was withdrawn before the start. */
function withdraw(scope: Scope, own: SQL | undefined, attempt_id: string | null, completion: Completion) {
  if (completion.status !== "cancelled") return undefined;
  return scope.db
    .update(commands)
    .set({ state: "cancelled", attempt_id, ...ending(scope) })
    .where(and(own, inState("queued")))
    .returning(ended)
    .get();
}

/** What is not the command's outcome leaves a note; the relay's own history has all of it. */
function keepOut({ db, now }: Scope, seq: number, attempt_id: string | null, completion: Completion): void {
  const note = { last_at: now, attempt_id, execution_id: completion.execution_id, status: completion.status };
  db.insert(keptOut)
    .values({ seq, times: 1, ...note })
    .onConflictDoUpdate({ target: keptOut.seq, set: { ...note, times: sql`${keptOut.times} + 1` } })
    .run();
}
