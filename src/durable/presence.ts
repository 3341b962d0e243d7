import { LIMITS } from "../protocol/limits.ts";
import type { Presence } from "./contract.ts";

const ONLINE = LIMITS.onlineSeconds * 1000;
/** How old the lasting note of a device that is there can be: its token's 15 minutes, and one more pass. */
const LASTING_NOTE = 15 * 60_000 + ONLINE;

/**
 * When each device was last seen, in memory: a pass that changes nothing must not cost a write. Memory goes
 * when the object sleeps, which it may do between two passes of a relay that is there.
 */
export class Presences {
  readonly #seen = new Map<string, number>();
  #awakeSince: number;

  constructor(now: number) {
    this.#awakeSince = now;
  }

  note(device_id: string, now: number): void {
    this.#seen.set(device_id, now);
  }

  /**
   * `lasting` is the device's stored note, if it has one. An object that woke less than
   * `LIMITS.onlineSeconds` ago has not had time to see the device, and goes by that note.
   */
  of(device_id: string, lasting: number | null, now: number): Presence {
    const seen = this.#seen.get(device_id);
    const last = Math.max(seen ?? Number.NEGATIVE_INFINITY, lasting ?? Number.NEGATIVE_INFINITY);
    if (last === Number.NEGATIVE_INFINITY) return { online: false, last_seen_at: null };
    const justWoke = seen === undefined && now - this.#awakeSince < ONLINE;
    return { online: now - last < (justWoke ? LASTING_NOTE : ONLINE), last_seen_at: last };
  }
}
