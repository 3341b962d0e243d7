import { and, count, eq, lte } from "drizzle-orm";
import { CANCEL_REASONS } from "../protocol/errors.ts";
import type { Progress } from "../protocol/relay-api.ts";
import { isTerminal } from "../protocol/states.ts";
import type { Presence, RunView } from "./contract.ts";
import { commands, devices, payloads } from "./schema.ts";
import { type CommandRow, given, inState, type Scope, statements } from "./scope.ts";

const find = statements((db) => ({
  device: db
    .select({ last_seen_at: devices.last_seen_at })
    .from(devices)
    .where(eq(devices.device_id, given("device_id")))
    .prepare(),
  position: db
    .select({ n: count() })
    .from(commands)
    .where(
      and(inState("queued"), eq(commands.device_id, given("device_id")), lte(commands.seq, given("seq"))),
    )
    .prepare(),
  outcome: db
    .select({ outcome_json: payloads.outcome_json })
    .from(payloads)
    .where(eq(payloads.seq, given("seq")))
    .prepare(),
}));

/** A command as its agent may see it. */
export function viewRun(scope: Scope, row: CommandRow): RunView {
  const outcome = isTerminal(row.state) ? find(scope).outcome.get(row)?.outcome_json : undefined;
  return {
    command_id: row.command_id,
    graph_session_id: row.graph_session_id,
    device_id: row.device_id,
    status: row.state,
    cancel_requested: row.cancel_requested_at !== null,
    desktop: presenceOf(scope, row.device_id),
    queued_at: row.queued_at,
    late: row.late,
    finished_before_stop: row.finished_before_stop,
    ...(row.state === "queued" && {
      queue_position: find(scope).position.get(row)?.n ?? 0,
      expires_at: row.expires_at,
    }),
    ...(row.state === "running" && row.progress_json !== null && { progress_json: row.progress_json }),
    ...(row.started_at !== null && { started_at: row.started_at }),
    ...(row.finished_at !== null && { finished_at: row.finished_at }),
    ...(row.kept_until !== null && { kept_until: row.kept_until }),
    ...(outcome && { outcome_json: outcome }),
    ...(row.reason !== null && { reason: CANCEL_REASONS[row.reason] }),
  };
}

/** Whether a device is there now; for one that is not on the list, that it never was. */
function presenceOf(scope: Scope, device_id: string): Presence {
  const device = find(scope).device.get({ device_id });
  if (!device) return { online: false, last_seen_at: null };
  return scope.presences.of(device_id, device.last_seen_at, scope.now);
}

/** Whether waiting for this run is over: it ended, or its owner has to decide something. */
export function waitsNoMore(run: RunView): boolean {
  if (isTerminal(run.status)) return true;
  return (
    run.progress_json !== undefined &&
    (JSON.parse(run.progress_json) as Progress).state === "awaiting_approval"
  );
}
