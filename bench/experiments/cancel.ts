import type { Experiment } from "./figure.ts";
import { figure } from "./figure.ts";
import type { Laboratory } from "./laboratory.ts";
import type { NewLaboratory } from "./load.ts";
import { runLength } from "./run-lengths.ts";
import { mean, quantile } from "./statistics.ts";

const RUNS = 2000;
const WAKE_RUNS = 500;

interface Cancelled {
  /** Seconds from the cancel to the end, of runs that were queued and of runs that ran. */
  queued: number[];
  running: number[];
  /** Graphs that were started after their cancel. */
  startedAfterwards: number;
}

/** What cancel stops: a run is cancelled at a random moment of its first 40 s. */
export async function cancel(newLaboratory: NewLaboratory): Promise<Experiment> {
  const { queued, running, startedAfterwards } = await cancelEach(newLaboratory("cancel"), RUNS);
  const woken = await cancelEach(newLaboratory("cancel with wakes", { wakes: true }), WAKE_RUNS);
  const share = (count: number) => Math.ceil(1.96 * Math.sqrt((2 * count * (RUNS - count)) / RUNS));
  return {
    name: "cancel",
    title: "What does cancel actually stop?",
    method: `${RUNS} runs, each cancelled at a random moment of the 40 s after it was queued; a Graph ends 0.5 s after it is told to, as the write-up's figures have it.`,
    figures: [
      {
        what: "still queued",
        published: 523,
        ours: queued.length,
        unit: "runs",
        chance: share(queued.length),
      },
      {
        what: "already running",
        published: 1370,
        ours: running.length,
        unit: "runs",
        chance: share(running.length),
      },
      { what: "queued: started all the same", published: 0, ours: startedAfterwards, unit: "runs" },
      figure("queued: terminal after, max", 0.0, queued, (v) => Math.max(0, ...v), "s"),
      figure("running: terminal after, mean", 2.0, running, mean, "s"),
      figure("running: terminal after, p95", 3.3, running, (v) => quantile(v, 0.95), "s"),
      figure("running: terminal after, max", 3.5, running, (v) => Math.max(...v), "s"),
    ],
    own: [
      figure("with a wake socket, running: terminal after, mean", null, woken.running, mean, "s"),
      figure(
        "with a wake socket, running: terminal after, max",
        null,
        woken.running,
        (v) => Math.max(...v),
        "s",
      ),
    ],
  };
}

async function cancelEach(lab: Laboratory, count: number): Promise<Cancelled> {
  await lab.until(lab.begin());
  const sample: Cancelled = { queued: [], running: [], startedAfterwards: 0 };
  for (let i = 0; i < count; i++) await lab.until(cancelOne(lab, sample));
  lab.close();
  return sample;
}

async function cancelOne(lab: Laboratory, sample: Cancelled): Promise<void> {
  await lab.sleep(lab.random.next() * 20);
  const { command_id } = await lab.run(runLength(lab.random));
  await lab.sleep(lab.random.next() * 40);
  const before = lab.started;
  const asked = lab.scheduler.now;
  const answer = await lab.object.cancel({ agent_id: lab.agent, command_id });
  if (answer === undefined || answer.cancel === "already_finished") return;
  const { finished_at = Number.NaN } = await lab.ended(command_id);
  const seconds = (finished_at - asked) / 1000;
  if (answer.cancel === "cancelling") {
    sample.running.push(seconds);
    return;
  }
  sample.queued.push(seconds);
  await lab.sleep(40);
  sample.startedAfterwards += lab.started - before;
}
