import type { Experiment, Figure } from "./figure.ts";
import { figure } from "./figure.ts";
import type { Laboratory } from "./laboratory.ts";
import type { NewLaboratory } from "./load.ts";
import { runLength } from "./run-lengths.ts";
import { mean, median, quantile } from "./statistics.ts";

const ROUNDS = 100;
const RUNS = 5;
const OFFLINE_S = 600;

/** Five runs are asked for while the desktop has no network for ten minutes. */
export async function offline(newLaboratory: NewLaboratory): Promise<Experiment> {
  const lab = newLaboratory("offline");
  await lab.until(lab.begin());
  const first: number[] = [];
  const last: number[] = [];
  const states = new Set<string>();
  let early = 0;
  let completed = 0;
  const round = async () => {
    await lab.sleep(lab.random.next() * 20);
    const online = lab.network;
    lab.network = () => Promise.reject(new TypeError("fetch failed"));
    const before = lab.started;
    const tickets: string[] = [];
    for (let i = 0; i < RUNS; i++) tickets.push((await lab.run(runLength(lab.random))).command_id);
    await lab.sleep(OFFLINE_S);
    for (const id of tickets) states.add((await lab.get(id))?.status ?? "gone");
    early += lab.started - before;
    const back = lab.scheduler.now;
    lab.network = online;
    const ends = await Promise.all(tickets.map((id) => lab.ended(id)));
    completed += ends.filter((run) => run.status === "completed").length;
    first.push((Math.min(...ends.map((run) => run.started_at ?? Number.NaN)) - back) / 1000);
    last.push((Math.max(...ends.map((run) => run.finished_at ?? Number.NaN)) - back) / 1000);
  };
  for (let i = 0; i < ROUNDS; i++) await lab.until(round());
  lab.close();
  return {
    name: "offline",
    title: "What if the desktop drops off?",
    method: `${RUNS} runs queued during ${OFFLINE_S} s without a network; the write-up shows one such round, ours are ${ROUNDS}.`,
    figures: [
      { what: "status while offline", published: "queued", ours: [...states].join(", "), unit: "" },
      { what: "executed while offline", published: 0, ours: early, unit: "runs" },
      figure("back online: first start, median", 3, first, median, "s", 0),
      figure("back online: all 5 completed, median", 131, last, median, "s", 0),
      { what: "completed of 5", published: 5, ours: completed / ROUNDS, unit: "runs" },
    ],
    own: [
      figure("back online: first start, mean", null, first, mean, "s"),
      figure("back online: first start, p95", null, first, (v) => quantile(v, 0.95), "s"),
      figure("back online: first start, max", null, first, (v) => Math.max(...v), "s"),
    ],
  };
}

/** A run of 20 s whose completion does not get through at first, as in the write-up's example. */
export async function lostCompletion(
  newLaboratory: NewLaboratory,
  outbox: boolean,
): Promise<{ figures: Figure[]; own: Figure[] }> {
  const refused = await deliver(newLaboratory(`lost completion, refused, ${outbox}`), "refused");
  if (!outbox)
    return {
      figures: [
        { what: "outbox off: status an hour later", published: "running", ours: refused.status, unit: "" },
        {
          what: "outbox off: delivered",
          published: "never",
          ours: refused.delivered ? "yes" : "never",
          unit: "",
        },
      ],
      own: [],
    };
  const silent = await deliver(newLaboratory("lost completion, silent"), "silent");
  const reply = await deliver(newLaboratory("lost completion, reply"), "reply");
  return {
    figures: [
      { what: "outbox on: status", published: "completed", ours: refused.status, unit: "" },
      { what: "outbox on: delivered after the start", published: 40, ours: refused.after, unit: "s" },
    ],
    own: [
      {
        what: "outbox on, the request vanishes: delivered after the start",
        published: null,
        ours: silent.after,
        unit: "s",
      },
      {
        what: "outbox on, only the answer is lost: stored after the start",
        published: null,
        ours: reply.after,
        unit: "s",
      },
    ],
  };
}

async function deliver(lab: Laboratory, way: "refused" | "silent" | "reply") {
  await lab.until(lab.begin());
  let posts = 0;
  lab.network = async (call, serve) => {
    if (call !== "complete" || posts++ > 0) return serve();
    if (way === "silent") return new Promise(() => {});
    if (way === "reply") await serve();
    throw new TypeError("fetch failed");
  };
  const { command_id } = await lab.until(lab.run(20));
  await lab.until(lab.sleep(3600));
  const run = await lab.until(lab.get(command_id));
  lab.close();
  const delivered = run?.outcome_json !== undefined;
  const after = ((run?.finished_at ?? Number.NaN) - (run?.started_at ?? Number.NaN)) / 1000;
  return { status: run?.status ?? "gone", delivered, after: Number(after.toFixed(1)) };
}
