import type { RelayClock } from "../../../relay-cli/relay/ports.ts";
import type { Scheduler, Timer } from "../core/scheduler.ts";

interface Sleeper {
  /** Monotonic time of the laptop at which it is due. */
  due: number;
  run(): void;
  timer: Timer | undefined;
}

/**
 * A laptop that can be put to sleep: while it sleeps its monotonic clock stands still, nothing of it runs
 * and nothing reaches it. Its wall clock runs on, and may be wrong.
 */
export class Machine {
  readonly #scheduler: Scheduler;
  #slept = 0;
  #asleepSince: number | undefined;
  readonly #sleepers = new Set<Sleeper>();
  #waiting: (() => void)[] = [];
  /** Milliseconds that the wall clock is ahead of the world's. */
  wallError = 0;

  constructor(scheduler: Scheduler) {
    this.#scheduler = scheduler;
  }

  get asleep(): boolean {
    return this.#asleepSince !== undefined;
  }

  /** Milliseconds this machine has been awake, from some start. */
  monotonic(): number {
    return (this.#asleepSince ?? this.#scheduler.now) - this.#slept;
  }

  wall(): number {
    return Math.floor(this.#scheduler.now + this.wallError);
  }

  fallAsleep(): void {
    if (this.asleep) return;
    this.#asleepSince = this.#scheduler.now;
    for (const sleeper of this.#sleepers) sleeper.timer?.cancel();
  }

  wake(): void {
    if (this.#asleepSince === undefined) return;
    this.#slept += this.#scheduler.now - this.#asleepSince;
    this.#asleepSince = undefined;
    for (const sleeper of this.#sleepers) this.#arm(sleeper);
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const run of waiting) this.#scheduler.after(0, run);
  }

  /** Runs `run` after `ms` of this machine's waking time. */
  after(ms: number, run: () => void): Timer {
    const sleeper: Sleeper = { due: this.monotonic() + Math.max(0, ms), run, timer: undefined };
    this.#sleepers.add(sleeper);
    if (!this.asleep) this.#arm(sleeper);
    return {
      cancel: () => {
        sleeper.timer?.cancel();
        this.#sleepers.delete(sleeper);
      },
    };
  }

  /** Runs `run` now, or when the machine wakes. */
  reach(run: () => void): void {
    if (this.asleep) this.#waiting.push(run);
    else run();
  }

  #arm(sleeper: Sleeper): void {
    sleeper.timer = this.#scheduler.after(sleeper.due - this.monotonic(), () => {
      this.#sleepers.delete(sleeper);
      sleeper.run();
    });
  }
}

/** Thrown through code whose process was killed while it was in a synchronous call. */
export class Killed extends Error {
  constructor() {
    super("the process was killed");
  }
}

/**
 * One process on a machine. Once it is killed, none of its promises settles any more, so that its code
 * stands still for ever at the await it was at, and none of its calls has an effect.
 */
export class Process {
  readonly machine: Machine;
  alive = true;
  readonly #timers = new Set<Timer>();

  constructor(machine: Machine) {
    this.machine = machine;
  }

  kill(): void {
    this.alive = false;
    for (const timer of this.#timers) timer.cancel();
    this.#timers.clear();
  }

  /** Ends the synchronous call that a dead process is still in. */
  check(): void {
    if (!this.alive) throw new Killed();
  }

  after(ms: number, run: () => void): Timer {
    const timer = this.machine.after(ms, () => {
      this.#timers.delete(timer);
      if (this.alive) run();
    });
    this.#timers.add(timer);
    return {
      cancel: () => {
        timer.cancel();
        this.#timers.delete(timer);
      },
    };
  }

  /** A promise that settles as `work` does, as long as this process is there and awake to see it. */
  waitFor<T>(work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const reach = (then: () => void) =>
        this.machine.reach(() => {
          if (this.alive) then();
        });
      work.then(
        (value) => reach(() => resolve(value)),
        (error: unknown) => reach(() => reject(error)),
      );
    });
  }

  /** The clock port of this process. */
  clock(): RelayClock {
    return {
      wall: () => this.machine.wall(),
      monotonic: () => this.machine.monotonic(),
      sleep: (ms, signal) =>
        new Promise((resolve) => {
          if (!this.alive) return;
          if (signal?.aborted) return resolve();
          const wake = () => {
            signal?.removeEventListener("abort", stop);
            resolve();
          };
          const timer = this.after(ms, wake);
          const stop = () => {
            timer.cancel();
            wake();
          };
          signal?.addEventListener("abort", stop);
        }),
    };
  }
}
