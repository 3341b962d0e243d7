import type { RandomSource } from "../../src/protocol/ports.ts";

const FIRST_MS = 1_000;
const LONGEST_MS = 60_000;
/** How long all must go well before trouble is forgotten: three polls. A server that answers now and then keeps its pauses. */
const HEALTHY_MS = 60_000;

/**
 * How long to wait after a failure: full jitter (anything between nothing and a ceiling that doubles with
 * each failure), so that relays cut off together do not come back together.
 */
export interface Backoff {
  /** The pause after a failure, at least what the server asked for. */
  failed(now: number, retryAfterMs?: number): number;
  /** Something went well. */
  succeeded(now: number): void;
}

/** `now` is a monotonic clock's, in milliseconds; `firstMs` the ceiling of the first pause. */
export function createBackoff(random: RandomSource, firstMs = FIRST_MS): Backoff {
  let failures = 0;
  let healthySince: number | undefined;
  return {
    failed(now, retryAfterMs = 0) {
      if (healthySince !== undefined && now - healthySince >= HEALTHY_MS) failures = 0;
      healthySince = undefined;
      failures++;
      const ceiling = Math.min(LONGEST_MS, firstMs * 2 ** Math.min(failures - 1, 16));
      // Those told the same time to come back come back spread over a tenth of it at least.
      return retryAfterMs + fraction(random) * Math.max(ceiling, retryAfterMs / 10);
    },
    succeeded(now) {
      healthySince ??= now;
    },
  };
}

/** A random number in [0, 1). */
export function fraction(random: RandomSource): number {
  const bytes = random.bytes(4);
  return new DataView(bytes.buffer, bytes.byteOffset).getUint32(0) / 2 ** 32;
}
