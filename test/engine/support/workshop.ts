import { mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach } from "vitest";
import type {
  Engine,
  EngineEvent,
  Json,
  RunOutcome,
  RunRequest,
} from "../../../relay-cli/engine/contract.ts";
import {
  createEngine,
  ENGINE_LIMITS,
  type EnginePorts,
  systemPorts,
} from "../../../relay-cli/engine/index.ts";
import type { GraphSettings } from "../../../relay-cli/engine/settings.ts";

/** A folder with Graphs in it, and an engine for them. */
export interface Workshop {
  readonly folder: string;
  readonly engine: Engine;
  /** Writes a Graph; `body` is what its function does with `api`, unless it is a whole module. */
  graph(slug: string, body: string, extension?: string): string;
  run(slug: string, args?: { [key: string]: Json }, extra?: Partial<RunRequest>): Promise<Run>;
  close(): void;
}

/** A run that ended, and all that happened in it. */
interface Run {
  outcome: RunOutcome;
  events: EngineEvent[];
  /** The parsed result. */
  result: unknown;
  logs: string[];
}

/** An engine on the platform's own ports, its Graphs in a fresh folder, settings by slug. */
export function openWorkshop(
  settings: Record<string, Partial<GraphSettings>> = {},
  ports: Partial<EnginePorts> = {},
): Workshop {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "graph-relay-engine-")));
  const paths = new Map<string, string>();
  const engine = createEngine({
    settings: async ({ slug }) => settings[slug] ?? {},
    findGraph: async (slug) => {
      const path = paths.get(slug);
      return path === undefined ? undefined : { slug, path };
    },
    ...ports,
  });
  return {
    folder,
    engine,
    graph(slug, body, extension = "mjs") {
      const path = join(folder, `${slug}.${extension}`);
      writeFileSync(
        path,
        body.includes("export default") ? body : `export default async (api) => {\n${body}\n};\n`,
      );
      paths.set(slug, path);
      return path;
    },
    async run(slug, args = {}, extra = {}) {
      const events: EngineEvent[] = [];
      const execution_id = crypto.randomUUID();
      const outcome = await engine.run({
        execution_id,
        channel: `graph:local:${execution_id}`,
        graph: { slug, path: paths.get(slug) ?? join(folder, `${slug}.mjs`) },
        args,
        ...extra,
        onEvent(event) {
          events.push(event);
          extra.onEvent?.(event);
        },
      });
      return {
        outcome,
        events,
        result: outcome.result_json === undefined ? undefined : JSON.parse(outcome.result_json),
        logs: events.flatMap((e) => (e.type === "log" ? [e.line] : [])),
      };
    },
    close() {
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** The platform's clock with a shorter grace between SIGTERM and SIGKILL, so that a test need not take ten seconds. */
export const shortGrace = (milliseconds: number): EnginePorts["clock"] => ({
  ...systemPorts.clock,
  after: (ms, fn) =>
    systemPorts.clock.after(ms === ENGINE_LIMITS.stopGraceMilliseconds ? milliseconds : ms, fn),
});

/** Waits until `condition` holds; fails the test if it does not within `ms`. */
export async function eventually(condition: () => boolean, what: string, ms = 20_000): Promise<void> {
  const until = performance.now() + ms;
  while (!condition()) {
    if (performance.now() > until) throw new Error(`did not happen in ${ms} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** Whether a process is there and no zombie. */
export function isAlive(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return !/^\d+ \(.*\) [ZX]/s.test(stat);
  } catch {
    return false;
  }
}

/** The ids of all processes whose command line or environment holds `marker`. Linux only. */
export function processesWith(marker: string): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .map(Number)
    .filter((pid) => {
      try {
        return isAlive(pid) && readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(marker);
      } catch {
        return false;
      }
    });
}

/**
 * After each test of the file: no process, no timer and, unless a pool of connections may keep some, no open file is left
 * that was not there before it.
 */
export function checkLeftovers({ descriptors = false } = {}): void {
  let before = leftovers();
  beforeEach(() => {
    before = leftovers();
  });
  afterEach(() =>
    eventually(
      () => {
        const now = leftovers();
        return (
          now.children <= before.children &&
          now.timers <= before.timers &&
          (!descriptors || now.descriptors <= before.descriptors)
        );
      },
      `nothing is left of the test: ${JSON.stringify(before)}`,
    ),
  );
}

/** What a test may not leave behind: processes started by this one, open files, timers. */
function leftovers(): { children: number; descriptors: number; timers: number } {
  const children = readFileSync(`/proc/self/task/${process.pid}/children`, "utf8").trim();
  return {
    children: children === "" ? 0 : children.split(" ").map(Number).filter(isAlive).length,
    descriptors: readdirSync("/proc/self/fd").length,
    timers: process.getActiveResourcesInfo().filter((r) => r === "Timeout").length,
  };
}
