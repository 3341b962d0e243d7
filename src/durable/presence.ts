import { LIMITS } from "../protocol/limits.ts";
import type { Presence } from "./contract.ts";

const ONLINE = LIMITS.onlineSeconds * 1000;
/** How old the lasting note of a device that is there can be: its token's 15 minutes, and one more pass. */
const LASTING_NOTE = 15 * 60_000 + ONLINE;

/**
 * When each device was last seen, in memory: a pass that changes nothing must not cost a write. Memory goes
 * when the object sleeps, which it may do between two passes of a relay that is there. Its wake socket does
 * not: the platform keeps it open meanwhile, so that asking for it costs no row.
 */
export class Presences {
  readonly #seen = new Map<string, number>();
  readonly #isConnected: (device_id: string) => boolean;
  #awakeSince: number;

  /** `isConnected`: whether the device's wake socket is open now. */
  constructor(now: number, isConnected: (device_id: string) => boolean) {
    this.#awakeSince = now;
    this.#isConnected = isConnected;
  }

  note(device_id: string, now: number): void {
    this.#seen.set(device_id, now);
  }

  /**
   * `lasting` is the device's stored note, if it has one. An object that has not seen the device since it
   * woke goes by the device's wake socket: an open one counts as seen now. Without one, for the first
   * `LIMITS.onlineSeconds`, it goes by that note, as it has not had time to see the device. What it has
   * seen itself comes before the socket: that of a laptop whose lid was closed stays open for a while.
   */
  of(device_id: string, lasting: number | null, now: number): Presence {
    const seen = this.#seen.get(device_id) ?? (this.#isConnected(device_id) ? now : undefined);
    const last = Math.max(seen ?? Number.NEGATIVE_INFINITY, lasting ?? Number.NEGATIVE_INFINITY);
    if (last === Number.NEGATIVE_INFINITY) return { online: false, last_seen_at: null };
    const justWoke = seen === undefined && now - this.#awakeSince < ONLINE;
    return { online: now - last < (justWoke ? LASTING_NOTE : ONLINE), last_seen_at: last };
  }
}
