import type { Experiment } from "./figure.ts";
import { figure } from "./figure.ts";
import type { Laboratory } from "./laboratory.ts";
import type { NewLaboratory } from "./load.ts";
import { runLength } from "./run-lengths.ts";
import { mean, median, quantile } from "./statistics.ts";

const RUNS = 2000;
const WAKE_RUNS = 500;

/** How an agent asks: the pauses before its questions, in seconds, and how long each waits on the server. */
interface Strategy {
  name: string;
  pause(question: number): number;
  wait: number;
  published: readonly [calls: number, callsP95: number, late: number, lateP95: number] | null;
}

const every = (seconds: number) => () => seconds;

const STRATEGIES: readonly Strategy[] = [
  { name: "every 2 s", pause: every(2), wait: 0, published: [47.1, 118, 1.0, 1.9] },
  { name: "every 5 s", pause: every(5), wait: 0, published: [19.1, 48, 2.5, 4.8] },
  { name: "every 15 s", pause: every(15), wait: 0, published: [6.7, 16, 7.5, 14.2] },
  { name: "every 30 s", pause: every(30), wait: 0, published: [3.6, 8, 14.9, 28.4] },
  {
    name: "backoff 2, 4, 8 … 30 s",
    pause: (n) => Math.min(30, 2 ** (n + 1)),
    wait: 0,
    published: [6.6, 11, 14.8, 28.4],
  },
  {
    name: "wait 20 s, then every 10 s",
    pause: (n) => (n === 0 ? 20 : 10),
    wait: 0,
    published: [8.8, 23, 5.0, 9.6],
  },
  { name: "waiting reads of 40 s (the default)", pause: every(0), wait: 40, published: null },
  { name: "waiting reads of 50 s (the longest)", pause: every(0), wait: 50, published: null },
  { name: "20 s, then waiting reads of 40 s", pause: (n) => (n === 0 ? 20 : 0), wait: 40, published: null },
];

interface Samples {
  wait: number[];
  calls: number[][];
  late: number[][];
}

/** The write-up's first and third experiment on the same runs: reading a run does not change it. */
export async function pickup(newLaboratory: NewLaboratory): Promise<Experiment[]> {
  const lab = newLaboratory("pickup");
  await lab.until(lab.begin());
  const samples: Samples = { wait: [], calls: STRATEGIES.map(() => []), late: STRATEGIES.map(() => []) };
  for (let i = 0; i < RUNS; i++) await lab.until(oneRun(lab, samples));
  lab.close();
  const { wait } = samples;
  const woken = await wakes(newLaboratory);
  return [
    {
      name: "pickup",
      title: "How long does a run sit in the queue?",
      method: `${RUNS} runs asked for at a random moment of the relay's 20 s; from the ticket to the start.`,
      figures: [
        figure("mean", 9.8, wait, mean, "s"),
        figure("median", 9.8, wait, median, "s"),
        figure("p95", 18.9, wait, (v) => quantile(v, 0.95), "s"),
        figure("max", 20.0, wait, (v) => Math.max(...v), "s"),
      ],
      own: [
        figure("with a wake socket: mean", null, woken, mean, "s", 3),
        figure("with a wake socket: max", null, woken, (v) => Math.max(...v), "s", 3),
      ],
    },
    {
      name: "polling",
      title: "How often should the agent call get_graph_run?",
      method: `The same ${RUNS} runs, each watched in all these ways at once; from the ticket to the first answer that shows the end.`,
      figures: STRATEGIES.filter((s) => s.published).flatMap((s) => strategyFigures(s, samples)),
      own: STRATEGIES.filter((s) => !s.published).flatMap((s) => strategyFigures(s, samples)),
    },
  ];
}

/** The same wait where the object can tell the relay that there is something. */
async function wakes(newLaboratory: NewLaboratory): Promise<number[]> {
  const lab = newLaboratory("pickup with wakes", { wakes: true });
  await lab.until(lab.begin());
  const waits: number[] = [];
  const one = async () => {
    await lab.sleep(lab.random.next() * 20);
    const { command_id } = await lab.run(5);
    const run = await lab.ended(command_id);
    waits.push(((run.started_at ?? Number.NaN) - run.queued_at) / 1000);
  };
  for (let i = 0; i < WAKE_RUNS; i++) await lab.until(one());
  lab.close();
  return waits;
}

async function oneRun(lab: Laboratory, samples: Samples): Promise<void> {
  await lab.sleep(lab.random.next() * 20);
  const { command_id } = await lab.run(runLength(lab.random));
  const seen = await Promise.all(STRATEGIES.map((strategy) => watch(lab, command_id, strategy)));
  const run = await lab.get(command_id);
  if (run?.started_at === undefined || run.finished_at === undefined) throw new Error("the run did not end");
  samples.wait.push((run.started_at - run.queued_at) / 1000);
  for (const [i, { calls, at }] of seen.entries()) {
    samples.calls[i]?.push(calls);
    samples.late[i]?.push((at - run.finished_at) / 1000);
  }
}

async function watch(
  lab: Laboratory,
  id: string,
  { pause, wait }: Strategy,
): Promise<{ calls: number; at: number }> {
  for (let calls = 0; ; ) {
    const seconds = pause(calls);
    if (seconds > 0) await lab.sleep(seconds);
    const run = await lab.get(id, wait);
    calls++;
    if (run?.status === "completed") return { calls, at: lab.scheduler.now };
  }
}

function strategyFigures(strategy: Strategy, { calls, late }: Samples) {
  const i = STRATEGIES.indexOf(strategy);
  const [c, cp95, l, lp95] = strategy.published ?? [null, null, null, null];
  const p95 = (values: readonly number[]) => quantile(values, 0.95);
  const [asked = [], noticed = []] = [calls[i], late[i]];
  return [
    figure(`${strategy.name}: calls, mean`, c, asked, mean, "calls"),
    figure(`${strategy.name}: calls, p95`, cp95, asked, p95, "calls", 0),
    figure(`${strategy.name}: noticed late, mean`, l, noticed, mean, "s"),
    figure(`${strategy.name}: noticed late, p95`, lp95, noticed, p95, "s"),
  ];
}
