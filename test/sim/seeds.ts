import type { Pool } from "./pool.ts";

/** What many seeds came to. */
export interface Sums {
  seeds: number;
  commands: number;
  starts: number;
  finished: number;
  faults: number;
  /** Seeds in which a guarantee was broken. */
  failing: number[];
}

/** Tasks that wait at most: enough that no thread is ever idle. */
const AHEAD = 8;
/** Failing seeds after which it is enough. */
const ENOUGH = 20;

/** Simulates the seeds from `from` on. `progress` is told of each seed that breaks a guarantee, and every 100 seeds. */
export async function runSeeds(
  pool: Pool,
  from: number,
  count: number,
  busy = false,
  progress: (sums: Sums, broke: number | undefined) => void = () => {},
): Promise<Sums> {
  const sums: Sums = { seeds: 0, commands: 0, starts: 0, finished: 0, faults: 0, failing: [] };
  let next = from;
  const lane = async (): Promise<void> => {
    while (next < from + count && sums.failing.length < ENOUGH) {
      const seed = next++;
      const { result } = await pool.run({ seed, busy });
      sums.seeds++;
      sums.commands += result.commands;
      sums.starts += result.starts;
      sums.finished += result.finished;
      sums.faults += result.happened.length;
      const broke = result.violations.length > 0;
      if (broke) sums.failing.push(seed);
      if (broke || sums.seeds % 100 === 0) progress(sums, broke ? seed : undefined);
    }
  };
  await Promise.all(Array.from({ length: AHEAD }, lane));
  sums.failing.sort((a, b) => a - b);
  return sums;
}
