import { closeSync, fdatasyncSync, mkdtempSync, openSync, readFileSync, rmSync, writeSync } from "node:fs";
import { availableParallelism, cpus, totalmem } from "node:os";
import { join } from "node:path";
import type { RaceOptions } from "./options.ts";
import { POSTGRES_SETTINGS, REDIS_SETTINGS } from "./servers.ts";
import { median } from "./stats.ts";
import { ms, table } from "./tables.ts";

/** What the figures hold for: the machine, the versions, the settings. `load`: the load average before the race. */
export function machine(servers: Record<string, string>, load: number, options: RaceOptions) {
  const facts = {
    processors: `${availableParallelism()} × ${cpus()[0]?.model.trim() ?? "unknown"}`,
    memory: `${(totalmem() / 2 ** 30).toFixed(0)} GB`,
    "load average before the race": load.toFixed(2),
    "one synced write of 4 kB": `${ms(syncMs())} ms`,
    Node: process.version,
    "workerd, wrangler": `${versionOf("../../node_modules/workerd")}, ${versionOf("../../node_modules/wrangler")}`,
    "graphile-worker, pg": `${versionOf("graphile-worker")}, ${versionOf("pg")}`,
    "BullMQ, ioredis": `${versionOf("bullmq")}, ${versionOf("ioredis")}`,
    servers: Object.values(servers).join(", "),
    "PostgreSQL's settings": settings(POSTGRES_SETTINGS),
    "Redis's settings": settings(REDIS_SETTINGS),
    rounds: `${options.rounds} of ${options.measureMs / 1000} s after ${options.warmupMs / 1000} s, contestants in turn; growth ${options.growthRounds}`,
    measured: new Date().toISOString().slice(0, 10),
  };
  return { facts, table: table(["", "here"], Object.entries(facts)) };
}

const settings = (of: Record<string, string>): string =>
  Object.entries(of)
    .map(([name, value]) => `${name}=${value === "" ? '""' : value}`)
    .join(" ");

/** The version in a package's own package.json, of this folder's packages or at a path. */
function versionOf(name: string): string {
  const folder = name.startsWith("..") ? name : `node_modules/${name}`;
  const text = readFileSync(new URL(`${folder}/package.json`, import.meta.url), "utf8");
  return (JSON.parse(text) as { version: string }).version;
}

/** The median time the disk of the race takes to make 4 kB durable: no queue commits faster, unless several commit at once. */
function syncMs(): number {
  const folder = mkdtempSync("/var/tmp/graph-relay-sync-");
  const file = openSync(join(folder, "file"), "w");
  const page = Buffer.alloc(4096, 1);
  const times = Array.from({ length: 200 }, (_, i) => {
    writeSync(file, page, 0, page.length, i * page.length);
    const from = performance.now();
    fdatasyncSync(file);
    return performance.now() - from;
  });
  closeSync(file);
  rmSync(folder, { recursive: true });
  return median(times);
}
