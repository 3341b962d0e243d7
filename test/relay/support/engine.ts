import type { Engine, EngineEvent, RunOutcome, RunRequest } from "../../../relay-cli/engine/contract.ts";

/** A run that the test ends when it wants. */
export interface FakeRun {
  request: RunRequest;
  runId: string;
  /** Times it was told to stop. */
  stops: number;
  emit(event: EngineEvent): void;
  end(outcome?: Partial<RunOutcome>): void;
}

/** An engine whose Graphs do nothing until the test says so. */
export class FakeEngine implements Engine {
  readonly runs: FakeRun[] = [];
  /** Ends a Graph as soon as it is told to stop, as a well-behaved one does. */
  obedient = true;
  /** Whether a run says at once that its process is up. */
  promptly = true;

  run = (request: RunRequest): Promise<RunOutcome> =>
    new Promise((resolve) => {
      const runId = `run-${this.runs.length + 1}`;
      const run: FakeRun = {
        request,
        runId,
        stops: 0,
        emit: (event) => request.onEvent(event),
        end: (outcome = {}) =>
          resolve({
            status: "completed",
            ...(outcome.status === undefined || outcome.status === "completed"
              ? { result_json: '"done"' }
              : {}),
            total_tokens: null,
            reported_cost: null,
            ...outcome,
          }),
      };
      this.runs.push(run);
      if (this.promptly) run.emit({ type: "fleet_started", run_id: runId });
    });

  fleetCancelRun = (runId: string): boolean => {
    const run = this.runs.find((one) => one.runId === runId);
    if (!run) return false;
    run.stops++;
    if (this.obedient) run.end({ status: "cancelled" });
    return run.stops === 1;
  };

  describe = async () => ({ ok: false as const, error: "not used here" });

  get last(): FakeRun {
    const run = this.runs.at(-1);
    if (!run) throw new Error("Nothing has run");
    return run;
  }
}
