import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { Experiment } from "../../bench/experiments/figure.ts";
import { withTables } from "../../bench/experiments/report.ts";
import { bestSpread, fitSpread, SPREAD } from "../../bench/experiments/run-lengths.ts";
import { withoutPadding } from "../../scripts/lib/docs-tables.ts";

const root = new URL("../../", import.meta.url);
const read = (path: string) => readFileSync(new URL(path, root), "utf8");

describe("the page of the experiments", () => {
  const { experiments } = JSON.parse(read("bench/results/experiments/experiments.json")) as {
    experiments: Experiment[];
  };

  it("has the tables of the results that are kept beside it", () => {
    const page = read("docs/experiments.md");
    const written = withoutPadding(withTables(page, experiments));
    expect(written, "npm run experiments writes the page").toBe(withoutPadding(page));
  });

  it("shows every experiment", () => {
    const page = read("docs/experiments.md");
    for (const { name } of experiments) expect(page).toContain(`<!-- experiment: ${name} -->`);
  });
});

describe("the spread of run lengths", () => {
  it("is the one that the write-up's figures fit best", () => {
    expect(SPREAD).toBe(bestSpread(fitSpread()));
  });
});
