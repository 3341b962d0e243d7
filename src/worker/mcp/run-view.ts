import type { Presence, RunView } from "../../durable/contract.ts";
import type { Completion } from "../../protocol/completion.ts";
import { projectOfCommand } from "../../protocol/ids.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { Progress } from "../../protocol/relay-api.ts";
import type { RunOutput } from "../../protocol/tools.ts";
import { nextStep } from "./next-step.ts";
import { isoTime } from "./results.ts";

/** When to look again at a queued run whose desktop is away, in seconds: it may be away for hours. */
const OFFLINE_SECONDS = 300;
/** When to look again at a run that waits for a person, in seconds. */
const APPROVAL_SECONDS = 60;
/** When to look again at a lost run, in seconds: its result may still arrive. */
const LOST_SECONDS = 300;

/** A desktop's presence on the wire. */
export const desktopOf = (presence: Presence): RunOutput["desktop"] => ({
  online: presence.online,
  last_seen_at: presence.last_seen_at === null ? null : isoTime(presence.last_seen_at),
});

/** When to call `get_graph_run` again, in seconds, or `undefined` for a run that ended. */
function checkAfterSeconds(run: RunView, progress: Progress | undefined): number | undefined {
  switch (run.status) {
    case "queued":
      // Nothing can start before the desktop's next look (write-up, "How often should the agent call").
      return run.desktop.online ? LIMITS.pollSeconds : OFFLINE_SECONDS;
    case "running":
      // The wait itself happens on the server.
      return progress?.state === "awaiting_approval" ? APPROVAL_SECONDS : 1;
    case "lost":
      return LOST_SECONDS;
    default:
      return undefined;
  }
}

/** A run as the tools answer it: ticket and status are this one shape. */
export function runOutput(run: RunView): RunOutput {
  const progress = run.progress_json === undefined ? undefined : (JSON.parse(run.progress_json) as Progress);
  const outcome = run.outcome_json === undefined ? undefined : (JSON.parse(run.outcome_json) as Completion);
  const checkAfter = checkAfterSeconds(run, progress);
  const facts: Omit<RunOutput, "next_step"> = {
    command_id: run.command_id,
    project_id: projectOfCommand(run.command_id) ?? "",
    graph_session_id: run.graph_session_id,
    status: run.status,
    cancel_requested: run.cancel_requested,
    ...given("queue_position", run.queue_position),
    desktop: desktopOf(run.desktop),
    ...given("check_after_seconds", checkAfter),
    queued_at: isoTime(run.queued_at),
    ...given("started_at", timeOf(run.started_at)),
    ...given("finished_at", timeOf(run.finished_at)),
    ...given("expires_at", timeOf(run.expires_at)),
    ...given("kept_until", timeOf(run.kept_until)),
    ...given("progress", run.status === "running" ? progress : undefined),
    ...given("error", run.reason),
    ...(outcome ? outcomeFields(outcome) : {}),
    ...(run.late ? { late: true } : {}),
    ...(run.finished_before_stop ? { finished_before_stop: true } : {}),
  };
  return { ...facts, next_step: nextStep(facts) };
}

function outcomeFields(outcome: Completion): Partial<RunOutput> {
  return {
    execution_id: outcome.execution_id,
    ...given("result", outcome.result),
    ...given("result_truncated", outcome.result_truncated),
    ...given("error", outcome.error),
    ...given("total_tokens", outcome.total_tokens ?? undefined),
    ...given("reported_cost", outcome.reported_cost ?? undefined),
  };
}

/** A field that is there only when it has a value. */
function given<K extends string, V>(name: K, value: V | undefined): { [P in K]?: V } {
  return (value === undefined ? {} : { [name]: value }) as { [P in K]?: V };
}

const timeOf = (ms: number | undefined): string | undefined => (ms === undefined ? undefined : isoTime(ms));
