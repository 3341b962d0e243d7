import type { CancelOutput, RunOutput } from "../../protocol/tools.ts";

type Facts = Omit<RunOutput, "next_step">;

/** What a model should do now, in words it can act on. */
export function nextStep(run: Facts): string {
  switch (run.status) {
    case "queued":
      return queuedStep(run);
    case "running":
      return runningStep(run);
    case "completed":
      return run.result_truncated
        ? `Done. The result was too large to send; the owner finds it whole in the desktop's history under execution_id ${run.execution_id}.`
        : "Done. Use the result; nothing more is to be called for this run.";
    case "failed":
      return "The run failed and is not tried again by itself. Tell the owner the error; a new run needs a new idempotency_key.";
    case "cancelled":
      return run.finished_before_stop
        ? "Cancelled, but the Graph had come to its own end before the stop reached it: what it did is done."
        : "Cancelled; nothing more happens. A new run needs a new idempotency_key.";
    case "expired":
      return "The desktop did not pick it up in time and it never started. A new run needs a new idempotency_key.";
    case "lost":
      return (
        "The desktop went silent while running it. It is not started again, as it may have done part of its work. " +
        `If the desktop comes back, its result still arrives: call get_graph_run again in about ${run.check_after_seconds} seconds.`
      );
  }
}

function queuedStep(run: Facts): string {
  const again = `call get_graph_run with this command_id in about ${run.check_after_seconds} seconds; do not call run_graph_session again for this run`;
  return run.desktop.online
    ? `Waiting for the desktop to pick it up: ${again}.`
    : `The desktop is offline; the run waits for it until ${run.expires_at}: tell the owner, then ${again}.`;
}

function runningStep(run: Facts): string {
  if (run.cancel_requested)
    return "The desktop is being told to stop it: call get_graph_run to see how it ended.";
  if (run.progress?.state === "awaiting_approval")
    return `The Graph waits for the owner's approval on the desktop: ask the owner, then call get_graph_run again in about ${run.check_after_seconds} seconds.`;
  return "It is running: call get_graph_run again now; that call waits on the server for the result.";
}

/** A run as text: the facts that `run` carries as fields, one a line, then the next step. */
export function runText(run: RunOutput | CancelOutput): string {
  const lines = [
    `Graph run ${run.command_id}: ${run.status}${run.late ? " (the result came late)" : ""}`,
    "cancel" in run ? `Cancel: ${run.cancel}` : run.cancel_requested ? "Cancel requested" : undefined,
    `Project ${run.project_id}, session ${run.graph_session_id}`,
    run.queue_position === undefined ? undefined : `Position in the desktop's queue: ${run.queue_position}`,
    desktopText(run.desktop),
    timesText(run),
    run.progress === undefined ? undefined : progressText(run.progress),
    run.error === undefined ? undefined : `Error: ${run.error}`,
    "result" in run ? `Result: ${JSON.stringify(run.result)}` : undefined,
    run.execution_id === undefined ? undefined : `Execution ${run.execution_id}${costText(run)}`,
    `Next: ${run.next_step}`,
  ];
  return lines.filter((line) => line !== undefined).join("\n");
}

/** Whether the laptop is there, as a line. */
export function desktopText(desktop: RunOutput["desktop"]): string {
  if (desktop.online) return `Desktop online, last seen ${desktop.last_seen_at}`;
  return desktop.last_seen_at === null
    ? "Desktop offline, not seen yet"
    : `Desktop offline since ${desktop.last_seen_at}`;
}

function timesText(run: RunOutput): string {
  const times = {
    queued: run.queued_at,
    started: run.started_at,
    finished: run.finished_at,
    expires: run.expires_at,
    "kept until": run.kept_until,
  };
  return Object.entries(times)
    .filter(([, time]) => time !== undefined)
    .map(([name, time]) => `${name} ${time}`)
    .join(", ");
}

function progressText(progress: NonNullable<RunOutput["progress"]>): string {
  const percent = progress.percent === undefined ? "" : ` ${progress.percent}%`;
  return `Progress: ${progress.state}${percent}${progress.message === undefined ? "" : `: ${progress.message}`}`;
}

function costText(run: RunOutput): string {
  const tokens = run.total_tokens === undefined ? "" : `, ${run.total_tokens} tokens`;
  return `${tokens}${run.reported_cost === undefined ? "" : `, ${run.reported_cost} US dollars`}`;
}
