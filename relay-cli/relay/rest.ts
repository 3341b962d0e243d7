import type { RelayPorts } from "./ports.ts";
import type { Bell } from "./signal.ts";

/** How often a resting relay looks whether another process changed the shares, and whether the machine slept. */
export const TICK_MS = 1_000;
/** A clock that is this far ahead of where the last look left it means that the machine slept. */
const SLEPT_MS = 5_000;

/** The pause between two passes. */
export interface Rest {
  /** What the owner shares, as a number that grows with each change; `otherwise` if the state file cannot be read now. */
  sharingVersion(otherwise: number): number;
  /** Waits for the next pass: its time, a bell, a change of `known`, or the machine waking up. */
  until(ms: number, known: number): Promise<void>;
}

export function createRest({ clock, store }: Pick<RelayPorts, "clock" | "store">, bell: Bell): Rest {
  function sharingVersion(otherwise: number): number {
    try {
      return store.projects.sharingVersion();
    } catch {
      return otherwise;
    }
  }
  return {
    sharingVersion,
    async until(ms, known) {
      const end = clock.monotonic() + ms;
      for (;;) {
        const left = end - clock.monotonic();
        if (left <= 0) return;
        const before = { wall: clock.wall(), monotonic: clock.monotonic() };
        if (await bell.wait(Math.min(TICK_MS, left))) return;
        const monotonic = clock.monotonic() - before.monotonic;
        if (clock.wall() - before.wall - monotonic > SLEPT_MS || monotonic > TICK_MS + SLEPT_MS) return;
        if (sharingVersion(known) !== known) return;
      }
    },
  };
}
