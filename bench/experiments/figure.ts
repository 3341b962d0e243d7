import { chance } from "./statistics.ts";

/** One figure of the write-up, and ours. */
export interface Figure {
  what: string;
  /** As the write-up has it; null: it has none. */
  published: number | string | null;
  ours: number | string;
  unit: "s" | "calls" | "runs" | "characters" | "bytes" | "";
  /** How far apart two samples of this size may be by chance, 95 times in 100. */
  chance?: number;
}

/** One of the write-up's tables or printouts, and what of ours is beside it. */
export interface Experiment {
  name: string;
  title: string;
  /** What was done, in a sentence or two. */
  method: string;
  figures: Figure[];
  /** Figures of the product alone, done the same way. */
  own?: Figure[];
}

/** A figure from a sample, rounded as the write-up rounds it. */
export function figure(
  what: string,
  published: number | null,
  values: readonly number[],
  statistic: (values: readonly number[]) => number,
  unit: Figure["unit"],
  digits = 1,
): Figure {
  const round = (value: number) => Number(value.toFixed(digits));
  return {
    what,
    published,
    ours: round(statistic(values)),
    unit,
    chance: Number(chance(values, statistic).toFixed(digits + 1)),
  };
}

/** What ours is more or less than the write-up's, for people. */
export function difference({ published, ours, chance: by = 0 }: Figure): string {
  if (published === null) return "";
  if (typeof published !== "number" || typeof ours !== "number")
    return published === ours ? "the same" : "differs";
  const apart = Number((ours - published).toFixed(2));
  if (apart === 0) return "0";
  const sign = apart > 0 ? "+" : "−";
  return `${sign}${Math.abs(apart)}${Math.abs(apart) <= by ? " (chance)" : ""}`;
}
