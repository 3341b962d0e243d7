import { parseArgs } from "node:util";

/** How long and how often is measured. */
export interface RaceOptions {
  /** Names of the contestants to take part; all by default. */
  only: string[];
  clients: number[];
  rounds: number;
  /** Before the first round, and after each filling: a round that is not counted. */
  warmupRoundMs: number;
  /** At the start of each round. */
  warmupMs: number;
  measureMs: number;
  /** Stored runs at which growth is measured, ascending; none: not measured. */
  sizes: number[];
  growthRounds: number;
  growthClients: number;
  /** Where our processor time goes is measured too. */
  profile: boolean;
  /** The tables of docs/benchmarks.md and bench/results/race are written anew. */
  write: boolean;
}

const HELP = `npm run bench -- [options]

  --quick             a look in under two minutes: shorter rounds, up to 10,000 stored runs, writes no files
  --only a,b          only these contestants: served, rules, graphile, bullmq
  --clients 1,10,100  callers at once
  --rounds N          rounds of each contestant at each number of clients
  --seconds S         seconds measured in each round
  --sizes 1000,…      stored runs at which growth is measured; 0: leave growth out
  --no-write          print only; leave bench/results/race and docs/benchmarks.md as they are`;

/** Reads the command line. Throws with what is wrong, or with the help text if that is asked for. */
export function raceOptions(args: string[]): RaceOptions {
  const { values } = parseArgs({
    args,
    options: {
      quick: { type: "boolean", default: false },
      only: { type: "string", default: "" },
      clients: { type: "string" },
      rounds: { type: "string" },
      seconds: { type: "string" },
      sizes: { type: "string" },
      "no-write": { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) throw new Error(HELP);
  const quick = values.quick;
  const list = (text: string | undefined, otherwise: number[]) =>
    text === undefined
      ? otherwise
      : text
          .split(",")
          .map(positive)
          .filter((n) => n > 0);
  return {
    only: values.only.split(",").filter((name) => name !== ""),
    clients: list(values.clients, [1, 10, 100]),
    rounds: positive(values.rounds ?? (quick ? "2" : "5")),
    warmupRoundMs: quick ? 1_000 : 3_000,
    warmupMs: quick ? 300 : 600,
    measureMs: 1000 * positive(values.seconds ?? (quick ? "0.7" : "2")),
    sizes: list(values.sizes, quick ? [1_000, 10_000] : [1_000, 10_000, 100_000, 1_000_000]),
    growthRounds: quick ? 1 : 2,
    growthClients: 10,
    profile: !quick,
    write: !quick && !values["no-write"],
  };
}

function positive(text: string): number {
  const value = Number(text);
  if (!Number.isFinite(value) || value < 0)
    throw new Error(`"${text}" is no number of at least 0.\n\n${HELP}`);
  return value;
}
