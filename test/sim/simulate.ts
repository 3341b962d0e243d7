import { availableParallelism } from "node:os";
import { parseArgs } from "node:util";
import { describeFailure } from "./describe.ts";
import { huntMutant, readSeeds, writeSeeds } from "./mutants/hunt.ts";
import { MUTANTS } from "./mutants/mutants.ts";
import { Pool } from "./pool.ts";
import { runSeeds } from "./seeds.ts";

const HELP = `npm run simulate -- [options]

  --seeds N        simulate N seeds (10000)
  --busy           worlds with many more runs: every agent asks again and again
  --from S         begin with seed S (1)
  --threads N      threads (one a processor)
  --seed S         one seed alone; with --trace, all that happens in it
  --only A,B,…     of that seed, only these operations and faults
  --mutants        apply each deliberate fault to the product, see that it is caught, and note by which seed
  --mutant NAME    that one alone
`;

/** Seeds between two lines of progress where there is no terminal. */
const LINE_EVERY = 1_000;

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "10000" },
    busy: { type: "boolean", default: false },
    from: { type: "string", default: "1" },
    threads: { type: "string", default: String(Math.max(1, availableParallelism())) },
    seed: { type: "string" },
    trace: { type: "boolean", default: false },
    only: { type: "string" },
    mutants: { type: "boolean", default: false },
    mutant: { type: "string" },
    help: { type: "boolean", default: false },
  },
});

if (values.help) console.log(HELP);
else if (values.seed !== undefined) process.exitCode = await one(Number(values.seed));
else if (values.mutants || values.mutant !== undefined) process.exitCode = await mutants();
else process.exitCode = await many();

async function one(seed: number): Promise<number> {
  const pool = await Pool.open(1);
  const only = values.only?.split(",").map((name) => name.trim());
  const { result } = await pool.run({
    seed,
    busy: values.busy,
    trace: values.trace,
    ...(only ? { only } : {}),
  });
  await pool.close();
  for (const line of result.lines) console.log(line);
  console.log(`seed ${seed}: ${result.commands} runs, history ${result.digest}`);
  for (const { guarantee, detail } of result.violations) console.log(`BROKEN: ${guarantee}: ${detail}`);
  return result.violations.length === 0 ? 0 : 1;
}

async function many(): Promise<number> {
  const pool = await Pool.open(Number(values.threads));
  const began = performance.now();
  const elapsed = () => ((performance.now() - began) / 1000).toFixed(1);
  const [from, seeds] = [Number(values.from), Number(values.seeds)];
  const total = await runSeeds(pool, from, seeds, values.busy, (sums, broke) => {
    const line = `${sums.seeds} seeds, ${sums.commands} simulated runs, ${elapsed()} s`;
    if (broke !== undefined) console.log(`\nseed ${broke} breaks a guarantee; told in full at the end`);
    else if (process.stderr.isTTY) process.stderr.write(`\r${line}`);
    else if (sums.seeds % LINE_EVERY === 0) console.log(line);
  });
  console.log(
    `\n${total.seeds} seeds, ${total.commands} simulated runs (${total.starts} started, ${total.finished} finished), ` +
      `${total.faults} faults, ${elapsed()} s: ${total.failing.length} violations`,
  );
  for (const seed of total.failing.slice(0, 3))
    console.log(describeFailure(await pool.run({ seed, busy: values.busy, shrink: true }), values.busy));
  await pool.close();
  return total.failing.length === 0 ? 0 : 1;
}

async function mutants(): Promise<number> {
  const known = readSeeds();
  let missed = 0;
  for (const mutant of MUTANTS.filter((m) => values.mutant === undefined || m.name === values.mutant)) {
    const found = await huntMutant(mutant, Number(values.threads), known[mutant.name]);
    if (found === undefined) missed++;
    else known[mutant.name] = found.seed;
    const where = found === undefined ? "MISSED   " : `seed ${String(found.seed).padStart(4)}`;
    console.log(`${where}  ${mutant.name}${found === undefined ? "" : `: ${found.guarantee}`}`);
  }
  writeSeeds(known);
  return missed === 0 ? 0 : 1;
}
