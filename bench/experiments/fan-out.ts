import type { Experiment, Figure } from "./figure.ts";
import { figure } from "./figure.ts";
import type { Laboratory } from "./laboratory.ts";
import type { NewLaboratory } from "./load.ts";
import { runLength } from "./run-lengths.ts";
import { median, quantile } from "./statistics.ts";

const ROUNDS = 500;
const OWN_ROUNDS = 200;
/** Runs queued at once, and the write-up's first median, last median and last p95. */
const PUBLISHED: readonly (readonly [runs: number, first: number, last: number, lastP95: number])[] = [
  [1, 74, 74, 254],
  [3, 73, 233, 483],
  [5, 75, 399, 776],
];

/** The second table: several runs queued at once, on a relay that runs one after the other. */
export async function fanOut(newLaboratory: NewLaboratory): Promise<Experiment> {
  const figures: Figure[] = [];
  for (const [runs, first, last, lastP95] of PUBLISHED) {
    const sample = await rounds(newLaboratory(`fan-out of ${runs}`), ROUNDS, runs);
    figures.push(...rows(`${runs} at once`, sample, [first, last, lastP95]));
  }
  const sideBySide = newLaboratory("fan-out side by side", { sessions: 5, concurrency: 5 });
  const own = await rounds(sideBySide, OWN_ROUNDS, 5);
  return {
    name: "fan-out",
    title: "What if five runs are queued at once?",
    method: `${ROUNDS} rounds of 1, 3 and 5 runs queued together at a random moment; from the tickets to each result.`,
    figures,
    own: rows("5 at once, of 5 sessions, with --concurrency 5", own, [null, null, null]),
  };
}

function rows(
  what: string,
  { first, last }: { first: number[]; last: number[] },
  told: (number | null)[],
): Figure[] {
  const [f = null, l = null, p = null] = told;
  return [
    figure(`${what}: first result, median`, f, first, median, "s", 0),
    figure(`${what}: last result, median`, l, last, median, "s", 0),
    figure(`${what}: last result, p95`, p, last, (v) => quantile(v, 0.95), "s", 0),
  ];
}

async function rounds(lab: Laboratory, count: number, runs: number) {
  await lab.until(lab.begin());
  const sample = { first: [] as number[], last: [] as number[] };
  const round = async () => {
    await lab.sleep(lab.random.next() * 20);
    const asked = lab.scheduler.now;
    const tickets: string[] = [];
    for (let i = 0; i < runs; i++) {
      const session = lab.sessions[i % lab.sessions.length];
      tickets.push((await lab.run(runLength(lab.random), undefined, session)).command_id);
    }
    const ends = await Promise.all(tickets.map((id) => lab.ended(id)));
    const seconds = ends.map((run) => ((run.finished_at ?? Number.NaN) - asked) / 1000);
    sample.first.push(Math.min(...seconds));
    sample.last.push(Math.max(...seconds));
  };
  for (let i = 0; i < count; i++) await lab.until(round());
  lab.close();
  return sample;
}
