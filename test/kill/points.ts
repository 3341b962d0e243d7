import type { CallKind, ChaosProxy, Treatment } from "../support/chaos-proxy.ts";
import type { RealRelay } from "../support/real-relay.ts";
import type { KillAt } from "./kill-switch.ts";

/** How the run ends that a relay was killed with, and how often its Graph was executed. */
export type End = readonly [state: "completed" | "failed", executions: 0 | 1];
const WHOLE: End = ["completed", 1];
const NEVER_BEGAN: End = ["failed", 0];
const CUT_SHORT: End = ["failed", 1];

/** Statements of the relay at which it is killed. Each is about the command in question. */
export const AT_STATEMENT: readonly [point: string, at: Omit<KillAt, "nth">, end: End][] = [
  ["before the journal has it", { texts: ["INSERT INTO attempts"], when: "before" }, WHOLE],
  ["once the journal has it", { texts: ["INSERT INTO attempts"], when: "after" }, WHOLE],
  ["before the journal has the start", { texts: ["SET state = 'started'"], when: "before" }, WHOLE],
  ["in the midst of writing the start", { texts: ["INSERT INTO history"], when: "after" }, WHOLE],
  // From here on nobody can know whether the process ran: it is never run again.
  [
    "once the journal has the start, before the process is there",
    { texts: ["SET state = 'started'"], atCommit: true, when: "after" },
    NEVER_BEGAN,
  ],
  ["between the end and the outbox", { texts: ["SET state = 'ended'"], when: "before" }, CUT_SHORT],
  ["in the midst of writing the outbox", { texts: ["INSERT INTO outbox"], when: "after" }, CUT_SHORT],
  [
    "between the outbox and the send",
    { texts: ["INSERT INTO outbox"], atCommit: true, when: "after" },
    WHOLE,
  ],
  ["between the answer and the outbox", { texts: ["DELETE FROM outbox"], when: "before" }, WHOLE],
  ["once the outbox is empty", { texts: ["DELETE FROM outbox"], when: "after" }, WHOLE],
];

/** Calls of the relay at which it is killed. */
export const AT_CALL: readonly [kind: CallKind, way: Way, end: End][] = [
  ["token", "before", WHOLE],
  ["token", "after", WHOLE],
  ["sync", "before", WHOLE],
  ["sync", "after", WHOLE],
  ["start", "before", WHOLE],
  ["start", "half-way in", WHOLE],
  ["start", "after", WHOLE],
  ["control", "before", CUT_SHORT],
  ["control", "after", CUT_SHORT],
  ["complete", "before", WHOLE],
  ["complete", "half-way in", WHOLE],
  ["complete", "after", WHOLE],
];

/** How far a call comes: not to the endpoint, half of it, or there and not back. */
export type Way = "before" | "half-way in" | "after";

/** A call that comes so far, and is cut once `then` is done. */
export const wayTo =
  (way: Way, then: () => Promise<void>): Treatment =>
  async (exchange) => {
    if (way === "half-way in") await exchange.forwardHalf();
    if (way === "after") await exchange.forward();
    await then();
    exchange.cut();
  };

/** Holds up the next call of a kind on its way. */
export function hold(proxy: ChaosProxy, kind: CallKind, way: Way): { reached: Promise<void>; cut(): void } {
  const reached = Promise.withResolvers<void>();
  const over = Promise.withResolvers<void>();
  proxy.next(
    kind,
    wayTo(way, () => {
      reached.resolve();
      return over.promise;
    }),
  );
  return { reached: reached.promise, cut: over.resolve };
}

/** Lends each of some laptops to one test at a time. */
export class Pool {
  readonly #free: RealRelay[];
  readonly #waiting: ((relay: RealRelay) => void)[] = [];

  constructor(relays: readonly RealRelay[]) {
    this.#free = [...relays];
  }

  async with<T>(body: (relay: RealRelay) => Promise<T>): Promise<T> {
    const relay = this.#free.pop() ?? (await new Promise<RealRelay>((done) => this.#waiting.push(done)));
    try {
      return await body(relay);
    } finally {
      const next = this.#waiting.shift();
      if (next) next(relay);
      else this.#free.push(relay);
    }
  }
}
