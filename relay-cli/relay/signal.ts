import type { RelayClock } from "./ports.ts";

/** A bell that one loop waits on and others ring. Rung while nobody waits, it ends the next wait at once. */
export interface Bell {
  ring(): void;
  /** True if the bell ended the wait, false if the time did. */
  wait(ms: number): Promise<boolean>;
}

export function createBell(clock: RelayClock): Bell {
  let rung = new AbortController();
  return {
    ring: () => rung.abort(),
    async wait(ms) {
      if (!rung.signal.aborted && ms > 0) await clock.sleep(ms, rung.signal);
      const was = rung.signal.aborted;
      if (was) rung = new AbortController();
      return was;
    },
  };
}
