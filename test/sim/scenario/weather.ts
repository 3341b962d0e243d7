import type { Dice } from "../core/dice.ts";
import type { Rates } from "../core/faults.ts";

/** Every kind of fault at every point, and the highest rate that a world may draw for it. */
const WORST: Readonly<Record<string, Rates>> = {
  /** A relay's request on its way to the server. */
  request: {
    lost: 0.1,
    refused: 0.2,
    html: 0.05,
    too_many: 0.1,
    bad_gateway: 0.1,
    delayed: 0.15,
    doubled: 0.15,
  },
  /** The answer on its way back: the server has done its part. */
  reply: { lost: 0.15, reset: 0.2, cut: 0.1, torn: 0.1, error: 0.1, delayed: 0.1 },
  /** A wake socket's upgrade, and a message on it. */
  upgrade: { refused: 0.2, hangs: 0.1, cut: 0.4 },
  wake: { lost: 0.3, late: 0.2, doubled: 0.2 },
  /** An agent's call to a tool, and its answer. */
  call: { lost: 0.2, delayed: 0.2, doubled: 0.2 },
  answer: { lost: 0.3 },
  /** A call to an object, one of its writes, its alarm. */
  object: { evicted_before: 0.05, evicted_after: 0.05, slow: 0.2 },
  object_write: { evicted: 0.03 },
  alarm: { late: 0.5, doubled: 0.3 },
  d1: { slow: 0.2, fails_before: 0.05, fails_after: 0.05 },
  /** A relay at an await, and at a write to its disk. */
  await: { killed: 0.004 },
  disk: { full: 0.05, killed_before: 0.01, killed_after: 0.01 },
};

/**
 * The rates of one world. Each kind is absent from most worlds and frequent in some: faults that come
 * together in every world hide one another.
 */
export function drawWeather(draw: Dice): Record<string, Rates> {
  const storm = draw.pick([0, 0.15, 0.3, 0.3, 0.5]);
  const rates: Record<string, Record<string, number>> = {};
  for (const [point, kinds] of Object.entries(WORST)) {
    const here: Record<string, number> = {};
    for (const [kind, worst] of Object.entries(kinds)) {
      const strikes = draw.chance(storm);
      const rate = worst * draw.next() ** 2;
      if (strikes) here[kind] = rate;
    }
    if (Object.keys(here).length > 0) rates[point] = here;
  }
  return rates;
}
