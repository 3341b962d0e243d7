import type { RelayClock } from "../../../relay-cli/relay/ports.ts";

interface Sleeper {
  at: number;
  wake(): void;
}

/** Time that a test moves. Nothing in it ever waits for real time. */
export class VirtualClock implements RelayClock {
  #monotonic = 1_000_000;
  #wall = Date.UTC(2026, 10, 20);
  readonly #sleepers = new Set<Sleeper>();

  /** Whole milliseconds, as the platform has them. */
  wall = () => Math.floor(this.#wall);
  monotonic = () => this.#monotonic;

  sleep = (ms: number, signal?: AbortSignal): Promise<void> =>
    new Promise((resolve) => {
      if (signal?.aborted) return resolve();
      const sleeper: Sleeper = {
        at: this.#monotonic + Math.max(ms, 0),
        wake: () => {
          this.#sleepers.delete(sleeper);
          signal?.removeEventListener("abort", sleeper.wake);
          resolve();
        },
      };
      this.#sleepers.add(sleeper);
      signal?.addEventListener("abort", sleeper.wake);
    });

  /** How many timers are set. */
  get sleeping(): number {
    return this.#sleepers.size;
  }

  /** Lets time go by, timer after timer, with everything they cause. */
  async advance(ms: number): Promise<void> {
    const until = this.#monotonic + ms;
    for (;;) {
      await settle();
      const next = [...this.#sleepers].sort((a, b) => a.at - b.at)[0];
      if (!next || next.at > until) break;
      this.#move(Math.max(next.at - this.#monotonic, 0));
      next.wake();
    }
    this.#move(until - this.#monotonic);
    await settle();
  }

  /** The wall clock is set, as by a person or a time server. */
  setWall(byMs: number): void {
    this.#wall += byMs;
  }

  /** The machine sleeps: the wall clock goes on, timers and the monotonic clock do not. */
  suspend(ms: number): void {
    this.#wall += ms;
  }

  #move(ms: number): void {
    this.#monotonic += ms;
    this.#wall += ms;
  }
}

/** Lets everything that waits for no timer come to rest. */
export async function settle(): Promise<void> {
  for (let i = 0; i < 12; i++) await new Promise<void>((resolve) => setImmediate(resolve));
}
