import { and, isNull, or } from "drizzle-orm";
import type { CancelAnswer } from "../protocol/states.ts";
import type { Presence, ProjectQueueApi, RunView } from "./contract.ts";
import { commands, devices } from "./schema.ts";
import { type CommandRow, ending, inState, isAgent, ofAgent, type Scope } from "./scope.ts";
import { viewRun } from "./view.ts";

type Request<K extends keyof ProjectQueueApi> = Parameters<ProjectQueueApi[K]>[0];

/** The agent's own run as it stands. */
export function getRun(
  scope: Scope,
  { agent_id, command_id }: { agent_id: string; command_id: string },
): RunView | undefined {
  const row = ownCommand(scope, agent_id, command_id);
  return row && viewRun(scope, row);
}

/** Cancels the agent's own queued run, asks a running or a lost one to stop. */
export function cancel(
  scope: Scope,
  { agent_id, command_id }: Request<"cancel">,
): { cancel: CancelAnswer; run: RunView } | undefined {
  if (!isAgent(scope, agent_id)) return undefined;
  const cancelled = cancelQueued(scope, agent_id, command_id);
  const asked = cancelled || askToStop(scope, agent_id, command_id);
  const row = ownCommand(scope, agent_id, command_id);
  if (!row) return undefined;
  const open = row.state === "running" || row.state === "lost";
  const stopping = asked || (open && row.cancel_requested_at !== null);
  return {
    cancel: cancelled ? "cancelled" : stopping ? "cancelling" : "already_finished",
    run: viewRun(scope, row),
  };
}

/** The device will never see it. */
function cancelQueued(scope: Scope, agent_id: string, command_id: string): boolean {
  const end = ending(scope);
  const won = scope.db
    .update(commands)
    .set({ state: "cancelled", cancel_requested_at: scope.now, ...end })
    .where(and(ofAgent(scope, agent_id, command_id), inState("queued")))
    .returning({ id: commands.command_id })
    .get();
  if (!won) return false;
  scope.effects.changed(command_id);
  scope.effects.due(end.kept_until);
  return true;
}

/** A lost run is asked too, for a laptop that comes back. The first request's time stays. */
function askToStop(scope: Scope, agent_id: string, command_id: string): boolean {
  const won = scope.db
    .update(commands)
    .set({ cancel_requested_at: scope.now })
    .where(
      and(
        ofAgent(scope, agent_id, command_id),
        or(inState("running"), inState("lost")),
        isNull(commands.cancel_requested_at),
      ),
    )
    .returning({ device_id: commands.device_id })
    .get();
  if (!won) return false;
  scope.effects.wake(won.device_id);
  return true;
}

/** When each of the project's devices was last seen, for an agent on the list. */
export function presence(
  scope: Scope,
  { agent_id }: Request<"presence">,
): Record<string, Presence> | undefined {
  if (!isAgent(scope, agent_id)) return undefined;
  const rows = scope.db
    .select({ id: devices.device_id, last_seen_at: devices.last_seen_at })
    .from(devices)
    .all();
  return Object.fromEntries(
    rows.map((row) => [row.id, scope.presences.of(row.id, row.last_seen_at, scope.now)]),
  );
}

function ownCommand(scope: Scope, agent_id: string, command_id: string): CommandRow | undefined {
  if (!isAgent(scope, agent_id)) return undefined;
  return scope.db
    .select()
    .from(commands)
    .where(ofAgent(scope, agent_id, command_id))
    .get();
}
