import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import type { Experiment } from "./figure.ts";
import { plots, table, withTables } from "./report.ts";
import { bestSpread, fitSpread, SPREAD } from "./run-lengths.ts";

// `npm run experiments`: the write-up's tables and figures from the product's own code on a virtual clock.

const RESULTS = fileURLToPath(new URL("../results/experiments/", import.meta.url));
const PAGE = fileURLToPath(new URL("../../docs/experiments.md", import.meta.url));

function runPart(part: string): Promise<Experiment[]> {
  const worker = new Worker(new URL("./thread.ts", import.meta.url), { workerData: { part }, execArgv: [] });
  return new Promise((resolve, reject) => {
    worker.once("message", (experiments: Experiment[]) => {
      void worker.terminate();
      resolve(experiments);
    });
    worker.once("error", reject);
  });
}

/** The two halves of one experiment that different threads did are one again. */
function merge(parts: readonly Experiment[]): Experiment[] {
  const merged: Experiment[] = [];
  for (const part of parts) {
    const earlier = merged.find((e) => e.name === part.name);
    if (earlier) earlier.figures.push(...part.figures);
    else merged.push(part);
  }
  return merged;
}

const began = performance.now();
const [watched = [], rest = [], without = []] = await Promise.all(
  ["watched", "rest", "without outbox"].map(runPart),
);
const experiments = merge([...watched, ...rest, ...without]);
const fit = fitSpread();

for (const experiment of experiments) {
  console.log(`\n## ${experiment.title}\n${experiment.method}\n`);
  console.log(table(experiment));
}
console.log(`\nRun lengths: lognormal, median 60 s, spread ${SPREAD} (the fit's best: ${bestSpread(fit)}).`);
console.log("(chance): two samples of this size differ by as much 5 times in 100.");

mkdirSync(RESULTS, { recursive: true });
const results = { spread: { used: SPREAD, fit }, experiments };
writeFileSync(`${RESULTS}experiments.json`, `${JSON.stringify(results, null, 1)}\n`);
for (const [name, plot] of plots(experiments)) writeFileSync(RESULTS + name, plot);
writeFileSync(PAGE, withTables(readFileSync(PAGE, "utf8"), experiments));
console.log(
  `\n${((performance.now() - began) / 1000).toFixed(1)} s. Written: ${RESULTS} and docs/experiments.md`,
);
