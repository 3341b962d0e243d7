/** The steps of a job, in the order they happen. Times are milliseconds. */
export const STEPS = [
  "enqueue",
  "same_key",
  "pick_up",
  "heartbeat",
  "complete",
  "read",
  "read_old",
  "job",
] as const;
export type Step = (typeof STEPS)[number];

export interface Quantiles {
  p50: number;
  p95: number;
  p99: number;
}

/** What one contestant did in one round. */
export interface RoundResult {
  jobs: number;
  seconds: number;
  jobsPerSecond: number;
  steps: Partial<Record<Step, Quantiles>>;
  /** Processor time of all jobs done meanwhile, in milliseconds a job: the callers' process, and the servers' processes. */
  cpu: { callers: number; servers: number };
}

/** The value below which the share `q` of `sorted` lies (nearest rank). */
function quantile(sorted: readonly number[], q: number): number {
  const at = Math.max(0, Math.ceil(q * sorted.length) - 1);
  return sorted[at] ?? Number.NaN;
}

export function quantiles(values: readonly number[]): Quantiles {
  const sorted = [...values].sort((a, b) => a - b);
  return { p50: quantile(sorted, 0.5), p95: quantile(sorted, 0.95), p99: quantile(sorted, 0.99) };
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  if (sorted.length === 0) return Number.NaN;
  const mid = sorted.length >> 1;
  return sorted.length % 2 ? (sorted[mid] ?? Number.NaN) : ((sorted[mid - 1] ?? 0) + (sorted[mid] ?? 0)) / 2;
}

/** Each figure's median over the rounds. */
export function medianRound(rounds: readonly RoundResult[]): RoundResult {
  const of = (pick: (r: RoundResult) => number | undefined) =>
    median(rounds.map(pick).filter((v) => v !== undefined));
  const steps: RoundResult["steps"] = {};
  for (const step of STEPS) {
    if (!rounds.some((r) => r.steps[step])) continue;
    steps[step] = {
      p50: of((r) => r.steps[step]?.p50),
      p95: of((r) => r.steps[step]?.p95),
      p99: of((r) => r.steps[step]?.p99),
    };
  }
  return {
    jobs: of((r) => r.jobs),
    seconds: of((r) => r.seconds),
    jobsPerSecond: of((r) => r.jobsPerSecond),
    steps,
    cpu: { callers: of((r) => r.cpu.callers), servers: of((r) => r.cpu.servers) },
  };
}
