/** Something that will happen at a moment of simulated time, unless it is cancelled. */
export interface Timer {
  cancel(): void;
}

interface Entry {
  at: number;
  order: number;
  run: (() => void) | undefined;
}

/** Steps that may happen at one moment before time counts as standing still. */
const STEPS_AT_ONCE = 20_000;

/** Something happens over and over without any time going by. */
export class TimeStandsStill extends Error {
  constructor() {
    super("time stands still: something happens over and over");
  }
}

// Taken before the platform's own timers are replaced.
const turn = globalThis.setImmediate;

/**
 * Simulated time. Nothing here waits: the clock stands still while code runs, and jumps to the next timer
 * when nothing is left to do. Timers of the same moment fire in the order they were set.
 */
export class Scheduler {
  #now: number;
  #order = 0;
  /** Steps since time last moved. */
  #stands = 0;
  readonly #heap: Entry[] = [];
  /** Called after each timer and all that followed from it. */
  afterEach: (() => void) | undefined;

  constructor(start: number) {
    this.#now = start;
  }

  /** Milliseconds since the epoch, in the world. */
  get now(): number {
    return this.#now;
  }

  /** The time as clocks tell it: whole milliseconds. */
  get clock(): number {
    return Math.floor(this.#now);
  }

  after(milliseconds: number, run: () => void): Timer {
    return this.at(this.#now + Math.max(0, milliseconds), run);
  }

  at(time: number, run: () => void): Timer {
    const entry: Entry = { at: Math.max(time, this.#now), order: this.#order++, run };
    this.#push(entry);
    return {
      cancel: () => {
        entry.run = undefined;
      },
    };
  }

  sleep(milliseconds: number): Promise<void> {
    return new Promise((resolve) => this.after(milliseconds, resolve));
  }

  /** Lets the world go on until `time`, or until `done` says so. */
  async runUntil(time: number, done?: () => boolean): Promise<void> {
    await this.#settle();
    for (;;) {
      if (done?.()) return;
      const next = this.#heap[0];
      if (next === undefined || next.at > time) break;
      this.#pop();
      if (next.run === undefined) continue;
      this.#stands = next.at > this.#now ? 0 : this.#stands + 1;
      if (this.#stands > STEPS_AT_ONCE) throw new TimeStandsStill();
      this.#now = next.at;
      next.run();
      await this.#settle();
      this.afterEach?.();
    }
    this.#now = Math.max(this.#now, time);
  }

  /** Lets every promise that can settle do so: one turn of the event loop runs all microtasks before it. */
  #settle(): Promise<void> {
    return new Promise((resolve) => turn(resolve));
  }

  #push(entry: Entry): void {
    const heap = this.#heap;
    let i = heap.push(entry) - 1;
    while (i > 0) {
      const parent = (i - 1) >> 1;
      if (!before(entry, heap[parent] as Entry)) break;
      heap[i] = heap[parent] as Entry;
      i = parent;
    }
    heap[i] = entry;
  }

  #pop(): void {
    const heap = this.#heap;
    const last = heap.pop() as Entry;
    if (heap.length === 0) return;
    let i = 0;
    for (;;) {
      let child = 2 * i + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && before(heap[child + 1] as Entry, heap[child] as Entry)) child++;
      if (!before(heap[child] as Entry, last)) break;
      heap[i] = heap[child] as Entry;
      i = child;
    }
    heap[i] = last;
  }
}

const before = (a: Entry, b: Entry): boolean => a.at < b.at || (a.at === b.at && a.order < b.order);
