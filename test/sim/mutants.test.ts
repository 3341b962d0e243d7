import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { mutate, ROOT } from "./core/loader.ts";
import { readSeeds } from "./mutants/hunt.ts";
import { MUTANTS } from "./mutants/mutants.ts";

// `npm run simulate -- --mutants` hunts them all, which takes minutes, and notes the seeds.
describe("the deliberate faults", () => {
  it("still fit the product's sources, and were all caught when they were last hunted", () => {
    const seeds = readSeeds();
    for (const { name, mutations } of MUTANTS) {
      for (const mutation of mutations) {
        const source = readFileSync(new URL(mutation.file, ROOT), "utf8");
        expect(mutate(source, mutation), name).not.toBe(source);
      }
      expect(seeds[name], `${name}: npm run simulate -- --mutants`).toBeGreaterThan(0);
    }
  });

  it("are at least twenty, each with its own name", () => {
    expect(new Set(MUTANTS.map((m) => m.name)).size).toBe(MUTANTS.length);
    expect(MUTANTS.length).toBeGreaterThanOrEqual(20);
    expect(Object.keys(readSeeds()).sort()).toEqual(MUTANTS.map((m) => m.name).sort());
  });
});
