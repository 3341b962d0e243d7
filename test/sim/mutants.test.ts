import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { mutate, ROOT } from "./core/loader.ts";
import { HUNT_SEEDS, huntMutant, readSeeds } from "./mutants/hunt.ts";
import { MUTANTS } from "./mutants/mutants.ts";

/** A hunt begins with the seed that was enough last time, so most end with their first. */
const HUNT_TIMEOUT_MS = 600_000;

describe("the deliberate faults", () => {
  const seeds = readSeeds();

  it("still fit the product's sources", () => {
    for (const { name, mutations } of MUTANTS)
      for (const mutation of mutations) {
        const source = readFileSync(new URL(mutation.file, ROOT), "utf8");
        expect(mutate(source, mutation), name).not.toBe(source);
      }
  });

  it("are at least twenty, each with its own name and the seed that caught it", () => {
    expect(new Set(MUTANTS.map((m) => m.name)).size).toBe(MUTANTS.length);
    expect(MUTANTS.length).toBeGreaterThanOrEqual(20);
    expect(Object.keys(seeds).sort()).toEqual(MUTANTS.map((m) => m.name).sort());
  });

  describe.concurrent(`are caught within ${HUNT_SEEDS} seeds`, () => {
    it.each(MUTANTS)(
      "$name",
      async (mutant) => {
        expect(await huntMutant(mutant, 1, seeds[mutant.name])).toBeDefined();
      },
      HUNT_TIMEOUT_MS,
    );
  });
});
