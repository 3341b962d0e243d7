import { readFileSync, writeFileSync } from "node:fs";
import type { Guarantee } from "../invariants/guarantees.ts";
import { Pool } from "../pool.ts";
import type { Mutant } from "./mutants.ts";

/** Seeds within which a deliberate fault must be caught. */
export const HUNT_SEEDS = 2_000;

const SEEDS = new URL("./seeds.json", import.meta.url);

/** The seed that caught each mutant last, by its name: where a hunt begins, so that it ends soon. */
export const readSeeds = (): Record<string, number> => JSON.parse(readFileSync(SEEDS, "utf8"));
export const writeSeeds = (seeds: Record<string, number>): void =>
  writeFileSync(SEEDS, `${JSON.stringify(seeds, null, 2)}\n`);

/**
 * The first seed, from `from` on and round to where it began, in which a mutant's fault breaks a guarantee.
 * Undefined if none of `HUNT_SEEDS` does.
 */
export async function huntMutant(
  mutant: Mutant,
  threads: number,
  from = 1,
): Promise<{ seed: number; guarantee: Guarantee } | undefined> {
  const pool = await Pool.open(threads, mutant.mutations);
  const caught: { seed: number; guarantee: Guarantee }[] = [];
  let tried = 0;
  const lane = async (): Promise<void> => {
    while (caught.length === 0 && tried < HUNT_SEEDS) {
      const seed = ((from - 1 + tried++) % HUNT_SEEDS) + 1;
      const { result } = await pool.run({ seed });
      const [violation] = result.violations;
      if (violation) caught.push({ seed, guarantee: violation.guarantee });
    }
  };
  await Promise.all(Array.from({ length: threads }, lane));
  await pool.close();
  return caught.sort((a, b) => a.seed - b.seed)[0];
}
