import type { Engine, RunOutcome, RunRequest } from "../../../relay-cli/engine/contract.ts";
import { newUuid } from "../../../src/protocol/ids.ts";
import type { Dice } from "../core/dice.ts";
import type { Process } from "./process.ts";

/** How a simulated Graph behaves, passed to it in its arguments. */
export interface Behaviour {
  /** Milliseconds until it ends by itself; null: never. */
  ends_after: number | null;
  outcome: "completed" | "failed";
  /** Characters of its result, beside its mark. */
  result_size: number;
  /** What it does when told to stop: ends, takes the ten seconds until SIGKILL, or just comes to its own end. */
  when_stopped: "ends" | "ignores" | "finishes";
  /** Milliseconds from its start until it asks its owner, and how long the owner takes. */
  approval: { at: number; answered_after: number } | null;
  /** Found again in the result, to tell whose it is. */
  mark: string;
}

/** What the world learns of the runs of Graphs: the truth that answers are held against. */
export interface EngineWitness {
  started(request: RunRequest): void;
  finished(request: RunRequest, outcome: RunOutcome): void;
  told(request: RunRequest): void;
}

const KILL_AFTER = 10_000;

/**
 * Stands in for the engine: its Graphs are timers on the laptop's clock. It keeps the engine's contract,
 * and its Graphs die with the relay's process.
 */
export function simulatedEngine(process: Process, dice: Dice, witness: EngineWitness): Engine {
  const running = new Map<string, () => void>();
  const told = new Set<string>();
  return {
    run(request) {
      process.check();
      witness.started(request);
      const behaviour = request.args.behaviour as unknown as Behaviour;
      const runId = newUuid(dice);
      return process.waitFor(
        new Promise<RunOutcome>((resolve) => {
          const end = (outcome: RunOutcome) => {
            if (!running.delete(runId)) return;
            witness.finished(request, outcome);
            resolve(outcome);
          };
          running.set(runId, () =>
            stop(process, behaviour, told.has(runId), end, () => witness.told(request)),
          );
          process.after(dice.int(1, 80), () => request.onEvent({ type: "fleet_started", run_id: runId }));
          askOwner(process, request, behaviour);
          if (behaviour.ends_after !== null)
            process.after(behaviour.ends_after, () => end(naturalEnd(behaviour, told.has(runId))));
        }),
      );
    },
    describe: () => Promise.resolve({ ok: false, error: "simulated Graphs have no file" }),
    fleetCancelRun(runId) {
      const stopRun = running.get(runId);
      if (stopRun === undefined || told.has(runId)) return false;
      stopRun();
      told.add(runId);
      return true;
    },
  };
}

function stop(
  process: Process,
  behaviour: Behaviour,
  again: boolean,
  end: (outcome: RunOutcome) => void,
  note: () => void,
): void {
  if (again) return;
  note();
  const killed: RunOutcome = { status: "cancelled", total_tokens: null, reported_cost: null };
  const wait = { ends: 60, ignores: KILL_AFTER, finishes: KILL_AFTER }[behaviour.when_stopped];
  if (behaviour.when_stopped === "finishes") process.after(300, () => end(naturalEnd(behaviour, true)));
  process.after(wait, () => end(killed));
}

function naturalEnd(behaviour: Behaviour, told: boolean): RunOutcome {
  const late = told ? { finished_before_stop: true } : {};
  if (behaviour.outcome === "failed")
    return {
      status: "failed",
      error: `broken ${behaviour.mark}`,
      total_tokens: 7,
      reported_cost: null,
      ...late,
    };
  const result = { mark: behaviour.mark, text: "x".repeat(behaviour.result_size) };
  return {
    status: "completed",
    result_json: JSON.stringify(result),
    total_tokens: 42,
    reported_cost: 0.01,
    ...late,
  };
}

function askOwner(process: Process, request: RunRequest, { approval }: Behaviour): void {
  if (approval === null) return;
  const say = (state: "running" | "awaiting_approval") =>
    request.onEvent({ type: "progress", progress: { state } });
  process.after(approval.at, () => say("awaiting_approval"));
  process.after(approval.at + approval.answered_after, () => say("running"));
}
