import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { loadavg } from "node:os";
import { fileURLToPath } from "node:url";
import { machine } from "./machine.ts";
import { raceOptions } from "./options.ts";
import { prepare } from "./prepare.ts";
import { race } from "./race.ts";
import { plotsOf, tablesOf } from "./report.ts";

// `npm run bench`: the race, its tables on stdout, its figures and plots in bench/results/race, its tables in
// docs/benchmarks.md.

const RESULTS = fileURLToPath(new URL("../results/race/", import.meta.url));
const PAGE = fileURLToPath(new URL("../../docs/benchmarks.md", import.meta.url));

/** Above this load average somebody else uses the processor noticeably. */
const MOST_LOAD = 0.5;

const TITLES: Record<string, string> = {
  machine: "The machine",
  throughput: "Throughput, and the whole job",
  steps: "Each step",
  cpu: "Processor time a job",
  profile: "Where our time goes (10 clients)",
  growth: "Growth",
};

async function main(): Promise<void> {
  const options = raceOptions(process.argv.slice(2));
  prepare();
  const from = performance.now();
  const load = loadavg()[0] ?? 0;
  if (load > MOST_LOAD)
    console.error(
      `The machine is busy (load average ${load.toFixed(1)}): the figures will be worse than they are.`,
    );
  const result = await race(options);
  const about = machine(result.versions, load, options);
  const tables: Record<string, string> = { machine: about.table, ...tablesOf(result) };
  for (const [name, text] of Object.entries(tables))
    if (text !== "") console.log(`\n## ${TITLES[name] ?? name}\n\n${text}`);
  console.error(`\n${((performance.now() - from) / 1000).toFixed(0)} s`);
  if (!options.write) return;
  mkdirSync(RESULTS, { recursive: true });
  writeFileSync(`${RESULTS}race.json`, `${JSON.stringify({ machine: about.facts, ...result }, null, 1)}\n`);
  for (const [name, svg] of Object.entries(plotsOf(result))) writeFileSync(`${RESULTS}${name}`, svg);
  writeFileSync(PAGE, withTables(readFileSync(PAGE, "utf8"), tables));
}

/** The page with what stands between `<!-- race: name -->` and `<!-- end -->` replaced. */
function withTables(page: string, tables: Record<string, string>): string {
  return page.replace(
    /(<!-- race: (\w+) -->\n)[\s\S]*?(<!-- end -->)/g,
    (whole, head: string, name: string, end) => {
      const text = tables[name];
      return text === undefined ? whole : `${head}${text}\n${end}`;
    },
  );
}

try {
  await main();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
