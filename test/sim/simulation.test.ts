import { availableParallelism } from "node:os";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { mutate } from "./core/loader.ts";
import { describeFailure } from "./describe.ts";
import { MUTANTS } from "./mutants/mutants.ts";
import { Pool } from "./pool.ts";
import { runSeeds } from "./seeds.ts";

const SEEDS = 200;

describe("the simulation", () => {
  let pool: Pool;
  beforeAll(async () => {
    pool = await Pool.open(Math.min(2, availableParallelism()));
  });
  afterAll(() => pool.close());

  it(`breaks no guarantee in ${SEEDS} seeds`, { timeout: 180_000 }, async () => {
    const sums = await runSeeds(pool, 1, SEEDS);
    const [seed] = sums.failing;
    expect(seed === undefined ? "" : describeFailure(await pool.run({ seed, shrink: true }))).toBe("");
    expect(sums.commands).toBeGreaterThan(4 * SEEDS);
    // Worlds in which hardly anything starts, or ends, would show nothing.
    expect(sums.starts).toBeGreaterThan(sums.commands / 2);
    expect(sums.finished).toBeGreaterThan(sums.starts * 0.8);
    expect(sums.faults).toBeGreaterThan(20 * SEEDS);
  });

  it("gives the same history for the same seed, byte for byte, in another thread and whatever ran before", async () => {
    const other = await Pool.open(1);
    for (const seed of [3, 1, 2]) {
      const [here, there] = await Promise.all([
        pool.run({ seed, trace: true }),
        other.run({ seed, trace: true }),
      ]);
      expect(here.result.lines.join("\n")).toBe(there.result.lines.join("\n"));
      expect(here.result.digest).toBe(there.result.digest);
    }
    await other.close();
  });
});

describe("a fault in the product", () => {
  it("is reported with its seed and what is enough to bring it about, and can be seen again", async () => {
    const mutant = MUTANTS.find((m) => m.name === "cancel takes a running command for a queued one");
    const pool = await Pool.open(1, mutant?.mutations);
    let seed = 0;
    const broken = async () => (await pool.run({ seed: ++seed })).result.violations[0]?.guarantee;
    while ((await broken()) !== "a cancel keeps its word");
    const { result, kept = [] } = await pool.run({ seed, shrink: true });
    expect(result.violations.map((v) => v.guarantee)).toContain("a cancel keeps its word");
    expect(kept.length).toBeLessThan(result.happened.length + 1);
    const again = await pool.run({ seed, only: kept });
    expect(again.result.digest).toBe(result.digest);
    const told = describeFailure({ seed, result, kept });
    expect(told).toContain(`npm run simulate -- --seed ${seed} --trace --only "${kept.join(",")}"`);
    expect(told.split("\n").length).toBeLessThan(100);
    await pool.close();
  });

  it("that cannot be applied fails loudly", () => {
    const mutation = { file: "src/x.ts", find: "a line", replace: "" };
    expect(() => mutate("another line", mutation)).toThrow("does not hold the text to mutate");
    expect(() => mutate("a line, a line", mutation)).toThrow("more than once");
    expect(mutate("with a line.", mutation)).toBe("with .");
  });
});
