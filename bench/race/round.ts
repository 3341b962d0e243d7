import type { Contestant, Laptop, PickedUp } from "./contestant.ts";
import { cpuMs } from "./cpu.ts";
import { argumentsJson, keyOf, resultJson } from "./payload.ts";
import { quantiles, type RoundResult, STEPS, type Step } from "./stats.ts";

export interface RoundOptions {
  /** Names the round, so that its keys are its own. */
  name: string;
  clients: number;
  warmupMs: number;
  measureMs: number;
  /** Finished runs stored beforehand; one of them is read with each job. 0: none. */
  stored: number;
}

/** A job under way. */
interface Cycle {
  enqueuedAt: number;
  result: string;
  times: Partial<Record<Step, number>>;
  completingAt: number;
  runs: number;
  done: () => void;
}

/**
 * One round: each client does one job after another (closed loop) until the time is over. Times are taken
 * from after the warm-up. Throws if a job ran twice, was lost, or reads back as another: speed counts for
 * nothing then.
 */
export async function runRound(contestant: Contestant, options: RoundOptions): Promise<RoundResult> {
  const cycles = new Map<string, Cycle>();
  const samples = Object.fromEntries(STEPS.map((step) => [step, [] as number[]])) as Record<Step, number[]>;
  const now = () => performance.now();
  let broken: (error: unknown) => void = () => {};
  const breakdown = new Promise<never>((_, reject) => {
    broken = reject;
  });

  const laptop: Laptop = {
    async run(job: PickedUp): Promise<string> {
      const cycle = cycles.get(job.key);
      if (!cycle) throw new Error(`A job nobody asked for: ${job.key}`);
      if (++cycle.runs > 1) throw new Error(`Ran twice: ${job.key}`);
      if (keyOf(job.argumentsJson) !== job.key) throw new Error(`Got another's arguments: ${job.key}`);
      cycle.times.pick_up = now() - cycle.enqueuedAt;
      const at = now();
      await job.heartbeat();
      cycle.times.heartbeat = now() - at;
      cycle.completingAt = now();
      return cycle.result;
    },
    completed(key) {
      const cycle = cycles.get(key);
      if (!cycle) return;
      cycle.times.complete = now() - cycle.completingAt;
      cycle.done();
    },
    failed: (error) => broken(error),
  };

  await contestant.open(options.clients, laptop);
  const cpuBefore = await cpuMs(contestant.servers);
  const started = now();
  const measureFrom = started + options.warmupMs;
  const until = measureFrom + options.measureMs;
  let jobs = 0;
  let jobsInAll = 0;

  async function client(index: number): Promise<void> {
    for (let n = 0; now() < until; n++) {
      const key = `${options.name}-${index}-${n}`;
      const seed = index * 1_000_003 + n;
      const args = argumentsJson(key, seed);
      let done = () => {};
      const finished = new Promise<void>((resolve) => {
        done = resolve;
      });
      const begun = now();
      const cycle: Cycle = {
        enqueuedAt: begun,
        result: resultJson(key, seed),
        times: {},
        completingAt: 0,
        runs: 0,
        done,
      };
      cycles.set(key, cycle);
      const id = await contestant.enqueue(index, key, args);
      cycle.times.enqueue = now() - begun;

      const again = now();
      const sameId = await contestant.enqueue(index, key, args);
      cycle.times.same_key = now() - again;
      if (sameId !== id) throw new Error(`The same key made a second run: ${key}`);

      await finished;
      const reading = now();
      const run = await contestant.read(index, id);
      cycle.times.read = now() - reading;
      cycle.times.job = now() - begun;
      if (run?.resultJson !== cycle.result) throw new Error(`Read back another result: ${key}`);

      if (options.stored > 0) {
        const old = contestant.storedId((seed * 7919) % options.stored);
        const at = now();
        const oldRun = await contestant.read(0, old);
        cycle.times.read_old = now() - at;
        if (!oldRun?.finished) throw new Error(`A stored run is gone: ${old}`);
      }
      cycles.delete(key);
      jobsInAll++;
      const ended = now();
      // Each job counts by the part of it that lies within the measured time, so that a round that is short
      // for its jobs is not counted in whole ones.
      const within = Math.min(ended, until) - Math.max(begun, measureFrom);
      jobs += Math.max(0, within) / (ended - begun);
      // One that outlasts the round counts in the latencies too: they may not lose the slow ones.
      if (ended < measureFrom) continue;
      for (const step of STEPS) {
        const time = cycle.times[step];
        if (time !== undefined) samples[step].push(time);
      }
    }
  }

  let cpu = cpuBefore;
  try {
    await Promise.race([
      Promise.all(Array.from({ length: options.clients }, (_, index) => client(index))),
      breakdown,
    ]);
    cpu = await cpuMs(contestant.servers);
    if (options.clients > 1) await refusesAnother(contestant, `${options.name}-other`, cycles);
  } finally {
    await contestant.close();
  }

  const steps: RoundResult["steps"] = {};
  for (const step of STEPS) if (samples[step].length > 0) steps[step] = quantiles(samples[step]);
  const seconds = options.measureMs / 1000;
  const perJob = (after: number, before: number) => (after - before) / jobsInAll;
  return {
    jobs,
    seconds,
    jobsPerSecond: jobs / seconds,
    steps,
    cpu: {
      callers: perJob(cpu.callers, cpuBefore.callers),
      servers: perJob(cpu.servers, cpuBefore.servers),
    },
  };
}

/** The owner check is part of the job: a reader who skips it would be faster. */
async function refusesAnother(
  contestant: Contestant,
  key: string,
  cycles: Map<string, Cycle>,
): Promise<void> {
  let done = () => {};
  const finished = new Promise<void>((resolve) => {
    done = resolve;
  });
  cycles.set(key, {
    enqueuedAt: 0,
    result: resultJson(key, 0),
    times: {},
    completingAt: 0,
    runs: 0,
    done,
  });
  const id = await contestant.enqueue(0, key, argumentsJson(key, 0));
  await finished;
  if (await contestant.read(1, id)) throw new Error("Another client may read the run");
}
