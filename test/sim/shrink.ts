import type { Simulate } from "./run.ts";

/** Simulations at most that finding a shorter history may take. */
const TRIES = 400;

/**
 * The operations and faults of a failing seed without which the same guarantee still breaks, left out half
 * by half, then a smaller and a smaller part at a time (Zeller's ddmin).
 */
export async function shrink(simulate: Simulate, seed: number, busy: boolean): Promise<string[]> {
  const first = await simulate(seed, { busy });
  const guarantee = first.violations[0]?.guarantee;
  let kept = [...new Set(first.happened)];
  if (guarantee === undefined) return kept;
  let tries = 0;
  const breaks = async (names: readonly string[]): Promise<boolean> => {
    tries++;
    const { violations } = await simulate(seed, { busy, only: new Set(names) });
    return violations.some((v) => v.guarantee === guarantee);
  };
  let parts = 2;
  while (kept.length > 0 && tries < TRIES) {
    const size = Math.ceil(kept.length / parts);
    let shorter: string[] | undefined;
    for (let from = 0; from < kept.length && tries < TRIES; from += size) {
      const rest = [...kept.slice(0, from), ...kept.slice(from + size)];
      if (!(await breaks(rest))) continue;
      shorter = rest;
      break;
    }
    if (shorter !== undefined) {
      kept = shorter;
      parts = Math.max(2, parts - 1);
    } else if (size === 1) break;
    else parts = Math.min(kept.length, parts * 2);
  }
  return kept;
}
