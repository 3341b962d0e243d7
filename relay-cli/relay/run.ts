import type { RunOutcome } from "../engine/contract.ts";
import type { Attempt, Graph, OutboxItem } from "../store/contract.ts";
import type { RelayApi } from "./api.ts";
import { type ControlLoop, startControlLoop } from "./control.ts";
import { type Failure, printable } from "./failure.ts";
import { completionOf, type StopReason, settleOutcome } from "./outcome.ts";
import type { RelayPorts } from "./ports.ts";
import { progressOf } from "./progress.ts";
import { createRecorder } from "./recorder.ts";

/** How long between two tries to save an outcome that the disk did not take. */
const SAVE_AGAIN_MS = 5_000;

/** A Graph that is running for a command. */
export interface Run {
  readonly attempt: Attempt;
  /** Tells the Graph to stop. Only the first call counts. */
  stop(reason: StopReason): void;
  /** Looks at once whether the run was cancelled. */
  nudge(): void;
  /** Gives up saving an outcome that the disk does not take. */
  abandon(): void;
  /** Resolves once the outcome is on the disk, or was abandoned. Never rejects. */
  readonly ended: Promise<void>;
}

/**
 * Runs a Graph whose attempt is `started` on the disk, and puts its outcome into history and outbox in one
 * write. Until that write is there the run is not over: its heartbeats go on, and nothing is reported.
 */
export function startRun(
  ports: RelayPorts,
  api: RelayApi,
  attempt: Attempt,
  graph: Graph,
  refused: (failure: Failure) => void,
): Run {
  const { engine, log } = ports;
  const abandoned = new AbortController();
  const recorder = createRecorder({ ...ports, history: ports.store.history }, attempt.execution_id);
  let runId: string | undefined;
  let reason: StopReason | undefined;
  let control: ControlLoop | undefined;

  function stop(why: StopReason): void {
    if (reason) return;
    reason = why;
    log.info(`Stopping ${attempt.slug} (${attempt.command_id})`);
    if (runId !== undefined) engine.fleetCancelRun(runId);
  }

  async function execute(): Promise<RunOutcome> {
    try {
      return await engine.run({
        execution_id: attempt.execution_id,
        channel: `graph:external:${attempt.command_id}`,
        graph: { slug: graph.slug, path: graph.path },
        args: JSON.parse(attempt.arguments_json),
        onEvent(event) {
          recorder.add(event);
          if (event.type === "fleet_started") {
            runId = event.run_id;
            if (reason) engine.fleetCancelRun(runId);
          } else if (event.type === "progress") control?.report(progressOf(event.progress));
        },
      });
    } catch (error) {
      return {
        status: "failed",
        error: `The engine failed: ${printable(String(error))}`,
        total_tokens: null,
        reported_cost: null,
      };
    }
  }

  /** Whether the outcome is on the disk. */
  function save(outcome: RunOutcome): boolean {
    const settled = settleOutcome(outcome, reason);
    const item: OutboxItem = {
      command_id: attempt.command_id,
      project_id: attempt.project_id,
      attempt_id: attempt.attempt_id,
      completion: completionOf(attempt.execution_id, settled),
      truncated: false,
      last_failure: null,
    };
    const record = {
      execution_id: attempt.execution_id,
      outcome: settled,
      finished_at: ports.clock.wall(),
    };
    try {
      recorder.flush();
      ports.store.attempts.finish(attempt.command_id, record, item);
      log.info(`${attempt.slug} ${settled.status} (${attempt.command_id})`);
      return true;
    } catch (error) {
      const text = printable(error instanceof Error ? error.message : String(error));
      log.warn(
        `The outcome of ${attempt.slug} (${attempt.command_id}) is not saved yet, so not reported: ${text}`,
      );
      control?.report({ state: "running", message: "Finished; the desktop cannot save the result yet" });
      return false;
    }
  }

  async function whole(): Promise<void> {
    const outcome = await execute();
    while (!save(outcome)) {
      await ports.clock.sleep(SAVE_AGAIN_MS, abandoned.signal);
      if (abandoned.signal.aborted) break;
    }
    control?.end();
    await control?.done;
  }

  control = startControlLoop(ports, api, attempt, { stop, refused });
  return {
    attempt,
    stop,
    nudge: () => control?.nudge(),
    abandon: () => abandoned.abort(),
    ended: whole(),
  };
}
