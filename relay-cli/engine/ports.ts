import { type ChildProcess, type SpawnOptions, spawn } from "node:child_process";
import * as fs from "node:fs/promises";
import type { ApprovalBroker } from "./approvals.ts";
import { EMPTY_CONFIG, type EngineConfig } from "./config.ts";
import type { GraphRef } from "./contract.ts";
import { residentBytes } from "./process/memory.ts";
import { findMarked } from "./process/strays.ts";
import type { GraphSettings } from "./settings.ts";

/** The engine's time. */
export interface EngineClock {
  /** Milliseconds since the Unix epoch: for records. */
  now(): number;
  /** Milliseconds that only go forward: for durations. */
  elapsed(): number;
  /** Calls `fn` once, `ms` from now. Returns what takes it back. */
  after(ms: number, fn: () => void): () => void;
}

/** Starts and signals processes. */
interface Processes {
  spawn(command: string, args: readonly string[], options: SpawnOptions): ChildProcess;
  /** As `process.kill`: a negative id means a whole group. Throws if there is none. */
  kill(pid: number, signal: NodeJS.Signals | 0): void;
  /** See `findMarked`. */
  findMarked(mark: string): Promise<number[]>;
  /** See `residentBytes`. */
  residentBytes(pid: number): Promise<number | undefined>;
}

/** The calls of the file system that the engine makes. */
export type EngineFs = Pick<
  typeof fs,
  "lstat" | "mkdir" | "open" | "opendir" | "readFile" | "realpath" | "rename" | "stat" | "unlink"
>;

/** Everything that the engine reaches the world through. Each has a default; see `systemPorts`. */
export interface EnginePorts {
  clock: EngineClock;
  random: { bytes(length: number): Uint8Array };
  processes: Processes;
  fs: EngineFs;
  /** For models, the `fetch` tool and MCP servers. */
  fetch: typeof globalThis.fetch;
  /** The environment that commands and providers see; a Graph's process gets none of it but its language and time zone. */
  env: Readonly<Record<string, string | undefined>>;
  /** What the owner set for a Graph; what is left out takes its default. */
  settings(graph: GraphRef): Promise<Partial<GraphSettings>>;
  /** The models and MCP servers that the owner configured. Read at the start of each run. */
  config(): Promise<EngineConfig>;
  /** Absolute paths of files and folders that no Graph reaches, granted or not, such as the owner's own settings. */
  offLimits: readonly string[];
  /** Another of the owner's Graphs, for `graph(slug)`. */
  findGraph(slug: string): Promise<GraphRef | undefined>;
  /** Asks the owner. The default refuses, as there is nobody to ask. */
  approvals: ApprovalBroker;
}

/** The platform's own: real time, processes and files; no settings, no other Graphs, nobody to ask. */
export const systemPorts: EnginePorts = {
  clock: {
    now: () => Date.now(),
    elapsed: () => performance.now(),
    after(ms, fn) {
      const timer = setTimeout(fn, ms);
      return () => clearTimeout(timer);
    },
  },
  random: { bytes: (length) => crypto.getRandomValues(new Uint8Array(length)) },
  processes: {
    spawn: (command, args, options) => spawn(command, args, options),
    kill: (pid, signal) => {
      process.kill(pid, signal);
    },
    findMarked,
    residentBytes,
  },
  fs,
  fetch: (...args) => globalThis.fetch(...args),
  env: process.env,
  settings: async () => ({}),
  config: async () => EMPTY_CONFIG,
  offLimits: [],
  findGraph: async () => undefined,
  approvals: { ask: async () => ({ answer: "refused", by: "nobody to ask" }) },
};

/** A random UUID of version 4, from the injected source. */
export function newUuid(random: EnginePorts["random"]): string {
  const bytes = random.bytes(16);
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x40;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  const h = Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
  return `${h.slice(0, 8)}-${h.slice(8, 12)}-${h.slice(12, 16)}-${h.slice(16, 20)}-${h.slice(20)}`;
}
