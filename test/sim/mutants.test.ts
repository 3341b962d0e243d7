import { describe, expect, it } from "vitest";
import { HUNT_SEEDS, huntMutant, readSeeds } from "./mutants/hunt.ts";
import { MUTANTS } from "./mutants/mutants.ts";

describe.concurrent(`a deliberate fault is caught within ${HUNT_SEEDS} seeds`, { timeout: 600_000 }, () => {
  const seeds = readSeeds();
  it.each(MUTANTS)("$name", async (mutant) => {
    expect(await huntMutant(mutant, 1, seeds[mutant.name])).toBeDefined();
  });
});

it("there are at least twenty of them, each with its own name", () => {
  expect(new Set(MUTANTS.map((m) => m.name)).size).toBe(MUTANTS.length);
  expect(MUTANTS.length).toBeGreaterThanOrEqual(20);
});
