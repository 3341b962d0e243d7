import { and, eq, sql } from "drizzle-orm";
import type { ControlRequest, ControlResponse, StartResponse } from "../protocol/relay-api.ts";
import type { Answer } from "./contract.ts";
import { noteSign, refusal } from "./devices.ts";
import { agents, commands } from "./schema.ts";
import { given, inState, leaseUntil, ofDevice, type Scope, statements } from "./scope.ts";

interface Attempt {
  device_id: string;
  command_id: string;
  attempt_id: string;
}

const sameAttempt = and(ofDevice, eq(commands.attempt_id, given("attempt_id")));
const lease = { lease_until: given("lease_until") };
/** What a sign without progress says of it: nothing. */
const signOfLife = {
  ...lease,
  progress_json: sql`coalesce(${given("progress_json")}, ${commands.progress_json})`,
};
const asked = { to_stop_at: commands.cancel_requested_at };

const to = statements((db) => ({
  start: db
    .update(commands)
    .set({ state: "running", attempt_id: given("attempt_id"), started_at: given("now"), ...lease })
    .where(and(ofDevice, inState("queued")))
    .returning(asked)
    .prepare(),
  startAgain: db
    .update(commands)
    .set(lease)
    .where(and(sameAttempt, inState("running")))
    .returning(asked)
    .prepare(),
  // Apart from `revive`, so that the usual sign touches no column of an index.
  renew: db
    .update(commands)
    .set(signOfLife)
    .where(and(sameAttempt, inState("running")))
    .returning(asked)
    .prepare(),
  revive: db
    .update(commands)
    .set({
      state: "running",
      finished_at: null,
      kept_until: null,
      // An agent that lost its access while the run was lost could not ask for the stop.
      cancel_requested_at: sql`case
        when ${commands.cancel_requested_at} is null
          and ${commands.agent_id} not in (select ${agents.agent_id} from ${agents}) then ${given("now")}
        else ${commands.cancel_requested_at} end`,
      ...signOfLife,
    })
    .where(and(sameAttempt, inState("lost")))
    .returning(asked)
    .prepare(),
  state: db.select({ state: commands.state }).from(commands).where(ofDevice).prepare(),
}));

/** queued → running, or running still for the attempt that started it, whose answer may have been lost. */
export function start(scope: Scope, attempt: Attempt): Answer<StartResponse> {
  if (!noteSign(scope, attempt.device_id)) return refusal("device_removed");
  const values = { ...attempt, now: scope.now, lease_until: leaseUntil(scope) };
  const won = to(scope).start.get(values) ?? to(scope).startAgain.get(values);
  if (won) {
    scope.effects.due(values.lease_until);
    return { ok: true, value: { go: true, lease_seconds: scope.settings.lease_seconds } };
  }
  const found = to(scope).state.get(values);
  return found ? { ok: true, value: { go: false, status: found.state } } : refusal("command_not_found");
}

/** Renews the lease of a running command; a lost one runs again, since its laptop is back. */
export function control(
  scope: Scope,
  { progress, ...attempt }: Attempt & ControlRequest,
): Answer<ControlResponse> {
  if (!noteSign(scope, attempt.device_id)) return refusal("device_removed");
  const values = {
    ...attempt,
    now: scope.now,
    lease_until: leaseUntil(scope),
    progress_json: progress === undefined ? null : JSON.stringify(progress),
  };
  const won = to(scope).renew.get(values) ?? to(scope).revive.get(values);
  if (!won) {
    const found = to(scope).state.get(values);
    return found ? { ok: true, value: { alive: false, status: found.state } } : refusal("command_not_found");
  }
  scope.effects.due(values.lease_until);
  if (progress?.state === "awaiting_approval") scope.effects.changed(attempt.command_id);
  return {
    ok: true,
    value: {
      alive: true,
      cancel_requested: won.to_stop_at !== null,
      lease_seconds: scope.settings.lease_seconds,
    },
  };
}
