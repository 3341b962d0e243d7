import { newId, newProjectId, newUuid } from "../../../src/protocol/ids.ts";
import type { ProjectSettings } from "../../../src/protocol/limits.ts";
import { DEFAULT_SETTINGS } from "../../../src/protocol/limits.ts";
import { type Dice, dice } from "../core/dice.ts";
import type { Rates } from "../core/faults.ts";
import type { Behaviour } from "../laptop/engine.ts";
import { drawOperations, LONG_WORLD } from "./operations.ts";
import { drawWeather } from "./weather.ts";

/** Everything that a seed decides before its world begins: who is there, what they do, what goes wrong. */
export interface Scenario {
  seed: number;
  accounts: Account[];
  /** In order of time. */
  operations: Operation[];
  rates: Readonly<Record<string, Rates>>;
  /** Milliseconds after the start at which all faults end. */
  calmAt: number;
}

export interface Account {
  id: string;
  projects: { id: string; settings: ProjectSettings }[];
  laptops: Laptop[];
  agents: Agent[];
}
export interface Laptop {
  name: string;
  deviceId: string;
  concurrency: number;
  /** It keeps wake sockets open; otherwise its passes alone find work. */
  wakes: boolean;
  graphs: { id: string; slug: string }[];
  /** Shared from the start. */
  shares: { project: string; graph: string }[];
}
export interface Agent {
  name: string;
  id: string;
  clientId: string;
  projects: string[];
}

/** One thing that someone does at a moment, in milliseconds after the start. It can be left out. */
export type Operation = { n: number; at: number } & (
  | { do: "run"; agent: string; graph: string; key: string; behaviour: Behaviour; patience: Patience }
  /** The same key with other arguments. */
  | { do: "run otherwise"; agent: string; graph: string; key: string; behaviour: Behaviour }
  | { do: "run again"; agent: string; of: number }
  | { do: "cancel"; agent: string; of: number }
  | { do: "peek"; agent: string; of: number; cancel: boolean }
  | { do: "list"; agent: string }
  | { do: "share" | "unshare"; laptop: string; project: string; graph: string }
  | { do: "enable" | "disable"; laptop: string; project: string }
  | { do: "rename"; laptop: string; graph: string; slug: string }
  | { do: "revoke" | "connect"; agent: string; projects: string[] }
  | { do: "remove device"; laptop: string }
  | { do: "kill" | "stop" | "sleep" | "wake" | "go offline" | "go online" | "start"; laptop: string }
  | { do: "jump clock"; laptop: string; by: number }
  | { do: "copy state"; laptop: string; to: string }
  | { do: "evict"; project: string }
);

/** How an agent follows a run: how long each question waits, and the pause between two. */
export interface Patience {
  wait_seconds: number;
  pause: number;
  /** Questions at most. */
  questions: number;
}

/** The scenario of a seed, with more runs in it if it is to be a busy one. Equal seeds give equal scenarios. */
export function drawScenario(seed: number, busy: boolean): Scenario {
  const draw = dice(seed, "scenario");
  const calmAt = draw.chance(0.15) ? draw.int(LONG_WORLD + 1, 700_000) : draw.int(120_000, LONG_WORLD);
  const accounts = Array.from({ length: draw.chance(0.3) ? 2 : 1 }, (_, n) => drawAccount(draw, n));
  return {
    seed,
    accounts,
    operations: drawOperations(draw, accounts, calmAt, busy),
    rates: drawWeather(dice(seed, "weather")),
    calmAt,
  };
}

function drawAccount(draw: Dice, n: number): Account {
  const projects = Array.from({ length: draw.int(1, 2) }, () => ({
    id: newProjectId(draw),
    settings: drawSettings(draw),
  }));
  const ids = projects.map((p) => p.id);
  const laptops = Array.from({ length: draw.chance(0.25) ? 2 : 1 }, (_, m) =>
    drawLaptop(draw, `laptop-${n}${m}`, ids),
  );
  const agents = Array.from({ length: draw.int(1, 2) }, (_, m) => ({
    name: `agent-${n}${m}`,
    id: newId("agt", draw),
    clientId: `client-${newUuid(draw)}`,
    projects: ids.filter((_id, i) => i === 0 || draw.chance(0.7)),
  }));
  return { id: newId("acc", draw), projects, laptops, agents };
}

function drawLaptop(draw: Dice, name: string, projects: string[]): Laptop {
  const graphs = Array.from({ length: draw.int(1, 3) }, (_, i) => ({
    id: newId("gs", draw),
    slug: `graph-${i}`,
  }));
  const shares = graphs.flatMap((graph) =>
    projects.filter(() => draw.chance(0.8)).map((project) => ({ project, graph: graph.id })),
  );
  return {
    name,
    deviceId: newId("dev", draw),
    concurrency: draw.pick([1, 1, 1, 2, 3]),
    wakes: draw.chance(0.5),
    graphs,
    shares,
  };
}

function drawSettings(draw: Dice): ProjectSettings {
  return {
    ...DEFAULT_SETTINGS,
    queue_expiry_seconds: draw.pick([300, 400, 86_400]),
    lease_seconds: draw.pick([30, 60, 90, 90]),
    retention_seconds: draw.pick([3_600, 86_400]),
    max_queued_per_agent: draw.pick([2, 20, 20]),
  };
}
