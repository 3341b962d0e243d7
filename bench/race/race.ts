import { spawnSync } from "node:child_process";
import { statfsSync } from "node:fs";
import { freemem } from "node:os";
import { ENTRIES, type Entry, titleOf } from "./contestants.ts";
import type { ProfiledRound } from "./driver.ts";
import type { Driver } from "./driver-client.ts";
import type { RaceOptions } from "./options.ts";
import { startStable } from "./stable.ts";
import type { RoundResult } from "./stats.ts";
import { count, type Rounds } from "./tables.ts";

export interface RaceResult {
  versions: Record<string, string>;
  /** By number of clients. */
  race: Record<string, Rounds>;
  /** By number of stored runs. */
  growth: Record<string, Rounds>;
  /** Where the time of ours goes, by contestant. */
  profiles: Record<string, ProfiledRound>;
  /** Sizes left out, and why. */
  leftOut: string[];
}

/** Whose time is looked into, and with how many clients. */
const OURS = ["served", "rules"];
const PROFILE_CLIENTS = 10;

/** Says what goes on, to stderr: the tables are for stdout. */
const say = (text: string) => console.error(text);

export async function race(options: RaceOptions): Promise<RaceResult> {
  const entries = ENTRIES.filter(({ name }) => options.only.length === 0 || options.only.includes(name));
  const first = await runRace(entries, options);
  const growth = options.sizes.length > 0 ? await runGrowth(entries, options) : { growth: {}, leftOut: [] };
  return { ...first, ...growth };
}

async function runRace(entries: readonly Entry[], options: RaceOptions) {
  const stable = await startStable(entries);
  const all: Record<string, Rounds> = {};
  const profiles: Record<string, ProfiledRound> = {};
  try {
    await warmUp(stable.drivers, "race-warm", options);
    for (let round = 0; round < options.rounds; round++) {
      for (const clients of options.clients) {
        say(`round ${round + 1} of ${options.rounds}, ${clients} clients`);
        const name = `race-${round}-${clients}`;
        const results = await oneRound(rotated([...stable.drivers], round), {
          ...options,
          name,
          clients,
          stored: 0,
        });
        addRound(all, String(clients), results);
      }
    }
    for (const name of options.profile ? OURS : []) {
      const profile = stable.drivers.get(name)?.profile;
      if (!profile) continue;
      say(`profile of ${titleOf(name)}`);
      profiles[name] = await profile({
        ...counted(options),
        name: "profiled",
        clients: PROFILE_CLIENTS,
        stored: 0,
      });
    }
  } finally {
    await stable.end();
  }
  return { race: all, profiles, versions: stable.versions };
}

async function runGrowth(entries: readonly Entry[], options: RaceOptions) {
  const stable = await startStable(entries);
  const all: Record<string, Rounds> = {};
  const leftOut: string[] = [];
  let before = 0;
  try {
    for (const size of options.sizes) {
      const lacking = roomFor(size - before, entries.length);
      if (lacking) {
        leftOut.push(`${count(size)} stored runs: ${lacking}`);
        break;
      }
      before = size;
      await fillAll(stable.drivers, size);
      await warmUp(stable.drivers, `growth-warm-${size}`, options);
      for (let round = 0; round < options.growthRounds; round++) {
        const name = `growth-${size}-${round}`;
        const results = await oneRound(rotated([...stable.drivers], round), {
          ...options,
          name,
          clients: options.growthClients,
          stored: size,
        });
        addRound(all, String(size), results);
      }
    }
  } finally {
    await stable.end();
  }
  return { growth: all, leftOut };
}

/** All at once, since each waits for its own store most of the time; the disk is at rest afterwards. */
async function fillAll(drivers: ReadonlyMap<string, Driver>, size: number): Promise<void> {
  const from = performance.now();
  await Promise.all([...drivers.values()].map((driver) => driver.fill(size)));
  spawnSync("sync");
  say(`${count(size)} runs stored with each (${((performance.now() - from) / 1000).toFixed(0)} s)`);
}

/** Compiles, connects and caches what the first round would pay for otherwise. */
async function warmUp(
  drivers: ReadonlyMap<string, Driver>,
  name: string,
  options: RaceOptions,
): Promise<void> {
  for (const driver of drivers.values())
    await driver.round({ name, clients: 10, warmupMs: 0, measureMs: options.warmupRoundMs, stored: 0 });
}

const counted = ({ warmupMs, measureMs }: RaceOptions) => ({ warmupMs, measureMs });

type Drivers = (readonly [string, Driver])[];

/** Every contestant right after the other, each time another first. */
async function oneRound(
  drivers: Drivers,
  options: Parameters<Driver["round"]>[0],
): Promise<Map<string, RoundResult>> {
  const results = new Map<string, RoundResult>();
  const { name, clients, warmupMs, measureMs, stored } = options;
  for (const [who, driver] of drivers) {
    const result = await driver.round({ name, clients, warmupMs, measureMs, stored });
    say(`  ${titleOf(who).padEnd(26)} ${count(result.jobsPerSecond).padStart(6)} jobs/s`);
    results.set(who, result);
  }
  return results;
}

const rotated = (drivers: Drivers, by: number): Drivers =>
  drivers.map((_, i) => drivers[(i + by) % drivers.length]).filter((driver) => driver !== undefined);

function addRound(all: Record<string, Rounds>, at: string, results: Map<string, RoundResult>): void {
  const rounds = all[at] ?? {};
  for (const [name, result] of results) rounds[name] = [...(rounds[name] ?? []), result];
  all[at] = rounds;
}

/** What is missing for `runs` more stored runs, if anything: about 5 kB each in memory (Redis) and on disk. */
function roomFor(runs: number, contestants: number): string | undefined {
  const bytes = runs * 5_000;
  const disk = statfsSync("/var/tmp");
  if (freemem() < bytes * 1.3) return `less than ${count((bytes * 1.3) / 1e9)} GB of memory is free`;
  // Twice, since a journal holds it again for a while.
  const need = 2 * bytes * contestants;
  if (disk.bavail * disk.bsize < need) return `less than ${count(need / 1e9)} GB of disk is free`;
  return undefined;
}
