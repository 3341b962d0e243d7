import { type Dice, dice } from "../../test/sim/core/dice.ts";
import { mean, median, quantile } from "./statistics.ts";

/** The write-up: "lognormal, median 60 s, at least 5 s". */
const MEDIAN_S = 60;
const LEAST_S = 5;

/**
 * The spread of the lognormal distribution, which the write-up does not say: the value that `fitSpread`
 * finds from what it does say. A test holds the two together.
 */
export const SPREAD = 0.82;

/** How long a run takes, in seconds. */
export const runLength = (draw: Dice, spread = SPREAD): number =>
  Math.max(LEAST_S, MEDIAN_S * Math.exp(spread * draw.normal()));

/** What the write-up tells of sums of run lengths and a wait: where the spread shows. */
const TOLD: readonly {
  runs: number;
  of: (totals: readonly number[]) => number;
  published: number;
  n: number;
}[] = [
  { runs: 1, of: median, published: 74, n: 500 },
  { runs: 1, of: (t) => quantile(t, 0.95), published: 254, n: 500 },
  { runs: 3, of: median, published: 233, n: 500 },
  { runs: 3, of: (t) => quantile(t, 0.95), published: 483, n: 500 },
  { runs: 5, of: median, published: 399, n: 500 },
  { runs: 5, of: (t) => quantile(t, 0.95), published: 776, n: 500 },
  // One more call for every two seconds.
  { runs: 1, of: (t) => mean(t.map((s) => Math.ceil(s / 2))), published: 47.1, n: 2000 },
  {
    runs: 1,
    of: (t) =>
      quantile(
        t.map((s) => Math.ceil(s / 2)),
        0.95,
      ),
    published: 118,
    n: 2000,
  },
];

/** Simulated totals for each spread, and how many samples of the write-up's size they make. */
const TOTALS = 20_000;

/**
 * The spread under which the write-up's own figures are least surprising: each is held against what many
 * samples of its size give, in deviations, and the squares are summed.
 */
export function fitSpread(): { spread: number; misfit: number }[] {
  const draw = dice("fit");
  const wait = Array.from({ length: TOTALS }, () => draw.next() * 20);
  const normal = Array.from({ length: TOTALS * 5 }, () => draw.normal());
  const grid = Array.from({ length: 16 }, (_, i) => (70 + 2 * i) / 100);
  return grid.map((spread) => {
    const length = (i: number) => Math.max(LEAST_S, MEDIAN_S * Math.exp(spread * (normal[i] as number)));
    const totals = (runs: number) =>
      wait.map((w, i) => {
        let sum = w;
        for (let k = 0; k < runs; k++) sum += length(i + k * TOTALS);
        return sum;
      });
    const byRuns = new Map([1, 3, 5].map((runs) => [runs, totals(runs)] as const));
    const misfit = TOLD.map(({ runs, of, published, n }) => {
      const all = byRuns.get(runs) ?? [];
      const samples = Array.from({ length: Math.floor(TOTALS / n) }, (_, i) =>
        of(all.slice(i * n, (i + 1) * n)),
      );
      const middle = mean(samples);
      const deviation = Math.sqrt(mean(samples.map((s) => (s - middle) ** 2)));
      return ((published - middle) / deviation) ** 2;
    });
    return { spread, misfit: misfit.reduce((a, b) => a + b, 0) };
  });
}

/** The best of a fit. */
export const bestSpread = (fit: readonly { spread: number; misfit: number }[]): number =>
  [...fit].sort((a, b) => a.misfit - b.misfit)[0]?.spread ?? Number.NaN;
