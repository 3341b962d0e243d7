import { and, isNull, or } from "drizzle-orm";
import type { CancelAnswer } from "../protocol/states.ts";
import type { Presence, RunView } from "./contract.ts";
import { commands, devices } from "./schema.ts";
import { ENDS, given, inState, isAgent, keptUntil, ofAgent, type Scope, statements } from "./scope.ts";
import { viewRun } from "./view.ts";

interface OwnCommand {
  agent_id: string;
  command_id: string;
}

const own = statements((db) => ({
  find: db.select().from(commands).where(ofAgent).prepare(),
  /** The device will never see it. */
  cancelQueued: db
    .update(commands)
    .set({ state: "cancelled", cancel_requested_at: given("now"), ...ENDS })
    .where(and(ofAgent, inState("queued")))
    .returning({ seq: commands.seq })
    .prepare(),
  /** A lost run is asked too, for a laptop that comes back. The first request's time stays. */
  askToStop: db
    .update(commands)
    .set({ cancel_requested_at: given("now") })
    .where(and(ofAgent, or(inState("running"), inState("lost")), isNull(commands.cancel_requested_at)))
    .returning({ device_id: commands.device_id })
    .prepare(),
  devices: db.select().from(devices).prepare(),
}));

/** The agent's own run as it stands. */
export function getRun(scope: Scope, { agent_id, command_id }: OwnCommand): RunView | undefined {
  if (!isAgent(scope, agent_id)) return undefined;
  const row = own(scope).find.get({ agent_id, command_id, now: scope.now });
  return row && viewRun(scope, row);
}

/** Cancels the agent's own queued run, asks a running or a lost one to stop. */
export function cancel(
  scope: Scope,
  { agent_id, command_id }: OwnCommand,
): { cancel: CancelAnswer; run: RunView } | undefined {
  if (!isAgent(scope, agent_id)) return undefined;
  const values = { agent_id, command_id, now: scope.now, kept_until: keptUntil(scope) };
  const cancelled = own(scope).cancelQueued.get(values);
  const asked = cancelled ? undefined : own(scope).askToStop.get(values);
  if (cancelled) {
    scope.effects.changed(command_id);
    scope.effects.due(values.kept_until);
  }
  if (asked) scope.effects.wake(asked.device_id);
  const run = getRun(scope, values);
  if (!run) return undefined;
  const stopping = run.cancel_requested && (run.status === "running" || run.status === "lost");
  return { cancel: cancelled ? "cancelled" : stopping ? "cancelling" : "already_finished", run };
}

/** When each of the project's devices was last seen, for an agent on the list. */
export function presence(
  scope: Scope,
  { agent_id }: { agent_id: string },
): Record<string, Presence> | undefined {
  if (!isAgent(scope, agent_id)) return undefined;
  const rows = own(scope).devices.all();
  return Object.fromEntries(
    rows.map((row) => [row.device_id, scope.presences.of(row.device_id, row.last_seen_at, scope.now)]),
  );
}
