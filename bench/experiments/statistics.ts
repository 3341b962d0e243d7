import { dice } from "../../test/sim/core/dice.ts";

export const mean = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0) / values.length;

/** The value that a share `p` of all values is not above, between neighbours in proportion (R's type 7). */
export function quantile(values: readonly number[], p: number): number {
  const sorted = Float64Array.from(values).sort();
  const at = (sorted.length - 1) * p;
  const low = sorted[Math.floor(at)] ?? Number.NaN;
  const high = sorted[Math.ceil(at)] ?? Number.NaN;
  return low + (high - low) * (at - Math.floor(at));
}

export const median = (values: readonly number[]): number => quantile(values, 0.5);

/** Samples drawn for one estimate of chance. */
const RESAMPLES = 200;

/**
 * How far two samples of this kind and size may be apart by chance alone, 95 times in 100: 1.96 times the
 * deviation of the difference, which the bootstrap estimates from ours.
 */
export function chance(values: readonly number[], statistic: (values: readonly number[]) => number): number {
  const draw = dice("bootstrap", values.length);
  const again = Array.from({ length: RESAMPLES }, () => {
    const sample = new Float64Array(values.length);
    for (let i = 0; i < sample.length; i++) sample[i] = values[draw.int(0, values.length - 1)] as number;
    return statistic(sample as unknown as readonly number[]);
  });
  const middle = mean(again);
  const variance = mean(again.map((value) => (value - middle) ** 2));
  return 1.96 * Math.sqrt(2 * variance);
}
