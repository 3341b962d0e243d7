import { median, type Quantiles, type RoundResult, type Step } from "./stats.ts";

/** A Markdown table, its columns padded so that it reads in a terminal too; all but the first right-aligned. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const width = head.map((cell, i) => Math.max(3, cell.length, ...rows.map((row) => row[i]?.length ?? 0)));
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell, i) => (i === 0 ? cell.padEnd(width[i] ?? 0) : cell.padStart(width[i] ?? 0))).join(" | ")} |`;
  const rule = width.map((w, i) => (i === 0 ? "-".repeat(w) : `${"-".repeat(w - 1)}:`));
  return [line(head), `| ${rule.join(" | ")} |`, ...rows.map(line)].join("\n");
}

export const ms = (value: number): string =>
  Number.isNaN(value)
    ? "–"
    : value >= 100
      ? value.toFixed(0)
      : value >= 10
        ? value.toFixed(1)
        : value.toFixed(2);
export const count = (value: number): string => Math.round(value).toLocaleString("en-US");
export const ratio = (value: number): string => (Number.isNaN(value) ? "–" : `${value.toFixed(2)}×`);
export const three = (q: Quantiles | undefined): string =>
  q ? `${ms(q.p50)} / ${ms(q.p95)} / ${ms(q.p99)}` : "–";

/** The rounds of each contestant, by its name; the n-th of each were run right after one another. */
export type Rounds = Record<string, RoundResult[]>;

/** The median over rounds of a figure of `name` divided by the same round's of `base`. */
export function pairedRatio(
  rounds: Rounds,
  name: string,
  base: string,
  figure: (r: RoundResult) => number,
): number {
  const bases = rounds[base] ?? [];
  return median((rounds[name] ?? []).slice(0, bases.length).map((r, i) => figure(r) / figure(bases[i] ?? r)));
}

/** What the steps are called in tables. */
export const STEP_NAMES: Readonly<Record<Step, string>> = {
  enqueue: "enqueue",
  same_key: "same key again",
  pick_up: "pick up",
  heartbeat: "heartbeat",
  complete: "complete",
  read: "read",
  read_old: "read an old run",
  job: "whole job",
};
