import { canonicalJson, type Json } from "../../../src/protocol/json.ts";
import type { CommandState } from "../../../src/protocol/states.ts";

/** One call to an object, as its caller saw it: between `asked` and `answered`, both counted over all callers. */
export interface Recorded {
  call: Call;
  answer: Json;
  asked: number;
  answered: number;
}

export type Call =
  | { do: "run"; id: string; key: string; args: string }
  | { do: "start"; id: string; attempt: string }
  | { do: "control"; id: string; attempt: string }
  | { do: "complete"; id: string; attempt: string; outcome: "completed" | "failed" | "cancelled" }
  | { do: "cancel"; id: string }
  | { do: "get"; id: string };

interface Command {
  key: string;
  args: string;
  state: CommandState;
  attempt?: string;
  stop: boolean;
  outcome?: string;
}
type Queue = ReadonlyMap<string, Command>;

/** The queue, in twenty lines: what a call answers, and what is there after it. */
export function model(queue: Queue, call: Call): { answer: Json; after: Queue } {
  if (call.do === "run") {
    const { id, key, args } = call;
    const [known, earlier] = [...queue].find(([, command]) => command.key === key) ?? [];
    if (known && earlier)
      return { answer: [earlier.args === args ? "ticket" : "conflict", known, earlier.state], after: queue };
    const fresh: Command = { key, args, state: "queued", stop: false };
    return { answer: ["ticket", id, "queued"], after: new Map([...queue, [id, fresh]]) };
  }
  const command = queue.get(call.id);
  if (!command) return { answer: "not found", after: queue };
  const become = (change: Partial<Command>) => new Map([...queue, [call.id, { ...command, ...change }]]);
  const { state, stop } = command;
  const mine = "attempt" in call && command.attempt === call.attempt;
  if (call.do === "get") return { answer: [state, stop], after: queue };
  if (call.do === "cancel") {
    if (state === "queued") return { answer: "cancelled", after: become({ state: "cancelled", stop: true }) };
    if (state === "running") return { answer: "cancelling", after: become({ stop: true }) };
    return { answer: ["already_finished", state], after: queue };
  }
  if (call.do === "start") {
    if (state === "queued")
      return { answer: "go", after: become({ state: "running", attempt: call.attempt }) };
    return { answer: state === "running" && mine ? "go" : state, after: queue };
  }
  if (call.do === "control")
    return { answer: state === "running" && mine ? ["alive", stop] : state, after: queue };
  const { attempt, outcome } = call;
  if ((state === "running" && mine) || (state === "queued" && outcome === "cancelled")) {
    const end = stop ? "cancelled" : outcome;
    return { answer: ["stored", end], after: become({ state: end, attempt, outcome }) };
  }
  return {
    answer: [command.outcome === outcome && mine ? "already_stored" : "kept_out", state],
    after: queue,
  };
}

/**
 * Whether some order of the calls, in which none comes before one that was answered before it was asked,
 * gives all of their answers (Wing and Gong's search, with the dead ends remembered).
 */
export function isLinearizable(history: readonly Recorded[]): boolean {
  const dead = new Set<string>();
  const search = (left: readonly Recorded[], queue: Queue): boolean => {
    if (left.length === 0) return true;
    const seen = `${left.map((r) => history.indexOf(r)).join()} ${JSON.stringify([...queue])}`;
    if (dead.has(seen)) return false;
    const first = Math.min(...left.map((r) => r.answered));
    for (const next of left) {
      if (next.asked > first) continue;
      const { answer, after } = model(queue, next.call);
      if (canonicalJson(answer) !== canonicalJson(next.answer)) continue;
      if (
        search(
          left.filter((r) => r !== next),
          after,
        )
      )
        return true;
    }
    dead.add(seen);
    return false;
  };
  return search(history, new Map());
}
