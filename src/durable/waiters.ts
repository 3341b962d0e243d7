import { LIMITS } from "../protocol/limits.ts";

/** Sets a timer, the platform's or a test's, and returns what clears it. */
export type SetTimer = (run: () => void, milliseconds: number) => () => void;

interface Waiter {
  agent_id: string;
  wake(): void;
}

/** The calls that wait for a run, in memory: one that is cut off asks again. */
export class Waiters {
  readonly #setTimer: SetTimer;
  readonly #byCommand = new Map<string, Set<Waiter>>();

  constructor(setTimer: SetTimer) {
    this.#setTimer = setTimer;
  }

  /** How many calls wait, of one agent or of all. */
  count(agent_id?: string): number {
    const all = [...this.#byCommand.values()].flatMap((set) => [...set]);
    return agent_id === undefined ? all.length : all.filter((w) => w.agent_id === agent_id).length;
  }

  /**
   * Resolves when the run is to be looked at again, at the latest after `milliseconds`; at once if this
   * agent, or the project, has as many calls waiting as it may.
   */
  wait(agent_id: string, command_id: string, milliseconds: number): Promise<void> {
    if (this.count(agent_id) >= LIMITS.waitersPerAgent || this.count() >= LIMITS.waitersPerProject)
      return Promise.resolve();
    return new Promise((resolve) => {
      const waiter: Waiter = {
        agent_id,
        wake: () => {
          clear();
          this.#remove(command_id, waiter);
          resolve();
        },
      };
      const clear = this.#setTimer(waiter.wake, milliseconds);
      const waiting = this.#byCommand.get(command_id) ?? new Set();
      this.#byCommand.set(command_id, waiting.add(waiter));
    });
  }

  wake(command_id: string): void {
    for (const waiter of this.#byCommand.get(command_id) ?? []) waiter.wake();
  }

  wakeAll(): void {
    for (const command_id of [...this.#byCommand.keys()]) this.wake(command_id);
  }

  #remove(command_id: string, waiter: Waiter): void {
    const waiting = this.#byCommand.get(command_id);
    waiting?.delete(waiter);
    if (waiting?.size === 0) this.#byCommand.delete(command_id);
  }
}
