import { ENTRIES, titleOf } from "./contestants.ts";
import type { ProfiledRound } from "./driver.ts";
import type { RaceResult } from "./race.ts";
import { medianRound, type RoundResult, STEPS, type Step } from "./stats.ts";
import { bars, lines, type Plot } from "./svg.ts";
import { count, ms, pairedRatio, type Rounds, ratio, STEP_NAMES, table, three } from "./tables.ts";

const perSecond = (r: RoundResult) => r.jobsPerSecond;
const [FIRST, SECOND] = ["served", "rules"] as const;

/** Tables for a page or a terminal, by the name of their place in docs/benchmarks.md. */
export function tablesOf(result: RaceResult): Record<string, string> {
  return {
    throughput: throughput(result.race),
    steps: Object.entries(result.race)
      .map(
        ([clients, rounds]) => `**${clients} ${clients === "1" ? "client" : "clients"}**\n\n${steps(rounds)}`,
      )
      .join("\n\n"),
    cpu: cpu(result.race),
    profile: Object.entries(result.profiles).map(profile).join("\n\n"),
    growth: growth(result.growth, result.leftOut),
  };
}

/** In the order of the contestants. */
const namesIn = (rounds: Rounds): string[] => ENTRIES.map((e) => e.name).filter((name) => rounds[name]);

function throughput(race: Record<string, Rounds>): string {
  const head = [
    "",
    "clients",
    "jobs/s",
    "to ours as served",
    "to our rules alone",
    "whole job p50 / p95 / p99 ms",
  ];
  const rows = Object.entries(race).flatMap(([clients, rounds]) =>
    namesIn(rounds).map((name) => {
      const mid = medianRound(rounds[name] ?? []);
      return [
        titleOf(name),
        clients,
        count(mid.jobsPerSecond),
        ratio(pairedRatio(rounds, name, FIRST, perSecond)),
        ratio(pairedRatio(rounds, name, SECOND, perSecond)),
        three(mid.steps.job),
      ];
    }),
  );
  return table(head, rows);
}

function steps(rounds: Rounds): string {
  const shown = STEPS.filter((step) => step !== "read_old" && step !== "job");
  const head = ["p50 / p95 / p99 ms", ...shown.map((step) => STEP_NAMES[step])];
  return table(
    head,
    namesIn(rounds).map((name) => {
      const mid = medianRound(rounds[name] ?? []);
      return [titleOf(name), ...shown.map((step) => three(mid.steps[step]))];
    }),
  );
}

function cpu(race: Record<string, Rounds>): string {
  const head = ["", "clients", "callers ms/job", "servers ms/job"];
  const rows = Object.entries(race).flatMap(([clients, rounds]) =>
    namesIn(rounds).map((name) => {
      const mid = medianRound(rounds[name] ?? []);
      return [titleOf(name), clients, ms(mid.cpu.callers), ms(mid.cpu.servers)];
    }),
  );
  return table(head, rows);
}

/** Areas below this share of the busy time are summed up as the rest. */
const LEAST_SHARE = 0.02;

function profile([name, { round, spent }]: [string, ProfiledRound]): string {
  const busy = spent.filter(([area]) => area !== "idle");
  const total = busy.reduce((sum, [, time]) => sum + time, 0);
  const shown = busy.filter(([, time]) => time >= LEAST_SHARE * total);
  const rest = total - shown.reduce((sum, [, time]) => sum + time, 0);
  const share = (time: number) => `${((100 * time) / total).toFixed(0)} %`;
  const jobs = round.jobsPerSecond * round.seconds;
  const rows = [...shown, ["the rest", rest] as const].map(([area, time]) => [
    area,
    share(time),
    ms(time / jobs),
  ]);
  return `**${titleOf(name)}**\n\n${table(["the JavaScript thread's time", "share", "ms/job"], rows)}`;
}

function growth(byStored: Record<string, Rounds>, leftOut: readonly string[]): string {
  const sizes = Object.entries(byStored);
  const first = sizes[0]?.[1] ?? {};
  const head = [
    "",
    "stored runs",
    "jobs/s",
    "to the fewest",
    "enqueue p95 ms",
    "pick up p95 ms",
    "read p95 ms",
    "read an old run p95 ms",
  ];
  const rows = namesIn(first).flatMap((name) =>
    sizes.map(([size, rounds]) => {
      const mid = medianRound(rounds[name] ?? []);
      const least = medianRound(first[name] ?? []);
      const p95 = (step: Step) => ms(mid.steps[step]?.p95 ?? Number.NaN);
      return [
        titleOf(name),
        count(Number(size)),
        count(mid.jobsPerSecond),
        ratio(mid.jobsPerSecond / least.jobsPerSecond),
        p95("enqueue"),
        p95("pick_up"),
        p95("read"),
        p95("read_old"),
      ];
    }),
  );
  return [table(head, rows), ...leftOut.map((why) => `Left out: ${why}.`)].join("\n\n");
}

/** Plots by file name. */
export function plotsOf(result: RaceResult): Record<string, string> {
  const plot = (title: string, axis: string, by: Record<string, Rounds>): Plot => ({
    title,
    axis,
    positions: Object.keys(by).map((at) => count(Number(at))),
    series: namesIn(Object.values(by)[0] ?? {}).map((name) => ({
      name: titleOf(name),
      values: Object.values(by).map((rounds) => medianRound(rounds[name] ?? []).jobsPerSecond),
    })),
  });
  return {
    "throughput.svg": bars(plot("Jobs a second", "clients at once", result.race)),
    ...(Object.keys(result.growth).length > 0 && {
      "growth.svg": lines(plot("Jobs a second at 10 clients", "stored runs", result.growth)),
    }),
  };
}
