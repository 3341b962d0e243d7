import { fileURLToPath } from "node:url";
import type { AgentAuth } from "../../../src/worker/auth.ts";
import type { Dice } from "../core/dice.ts";
import type { Faults } from "../core/faults.ts";
import { importProduct, ROOT } from "../core/loader.ts";
import type { Scheduler } from "../core/scheduler.ts";
import { SimulatedD1 } from "./d1.ts";
import { type ObjectClass, ObjectHost } from "./object-host.ts";

/** What a tool answers. */
export interface ToolAnswer {
  structuredContent: Record<string, unknown>;
  isError?: boolean;
}
type Tool = (input: object, context: object) => Promise<ToolAnswer>;
export type ToolName = "list_graph_sessions" | "run_graph_session" | "get_graph_run" | "cancel_graph_run";

type Handler = (request: Request, env: unknown, context: unknown) => Promise<Response> | Response;

/** The modules of the Worker that the world runs: the product's own, loaded past the type checker's border. */
export interface WorkerModules {
  ProjectQueue: ObjectClass;
  tools: Record<ToolName, Tool>;
  retryingQueues(deps: object): unknown;
  relayRoutes: { fetch: Handler };
  deviceTokenEndpoint: Handler;
  deliverAccess(env: object, projects: readonly string[]): Promise<void>;
  everyMinute(env: object): Promise<void>;
  database(d1: object): Database;
  connectAgent(db: Database, connection: object): Promise<string>;
  agentRevocation(db: Database, agent: object, now: number): unknown[];
  deviceRemoval(db: Database, device: object, now: number): unknown[];
}
interface Database {
  batch(statements: unknown[]): Promise<unknown>;
}

/** The server: D1, the projects' objects, and the Worker's code in front of them. */
export class Server {
  readonly d1: SimulatedD1;
  readonly objects: ObjectHost;
  readonly env: { DB: SimulatedD1; PROJECT_QUEUE: object; SIGNING_KEYS: string };
  readonly modules: WorkerModules;
  readonly #queues: unknown;
  readonly #scheduler: Scheduler;
  readonly #random: Dice;

  constructor(modules: WorkerModules, scheduler: Scheduler, faults: Faults, random: Dice) {
    this.modules = modules;
    this.#scheduler = scheduler;
    this.#random = random;
    const sleep = (ms: number) => scheduler.sleep(ms);
    this.d1 = new SimulatedD1(fileURLToPath(new URL("migrations", ROOT)), {
      next: () => d1Weather(faults),
      sleep,
    });
    this.objects = new ObjectHost(scheduler, modules.ProjectQueue, {
      call: (name) => callWeather(faults, name),
      write: (name) => faults.strike("object_write", name) !== undefined,
      alarm: (name) => alarmWeather(faults, name),
    });
    this.env = withRateLimits({
      DB: this.d1,
      PROJECT_QUEUE: this.objects.namespace(),
      SIGNING_KEYS: newSigningKeys(),
    });
    this.objects.env = this.env;
    const open = (project: string) => this.objects.namespace().getByName(project);
    this.#queues = modules.retryingQueues({ open, random, sleep });
  }

  /** One call of a tool, with a token that was verified. */
  callTool(auth: AgentAuth, name: ToolName, input: object): Promise<ToolAnswer> {
    const context = {
      auth,
      db: this.d1,
      queues: this.#queues,
      clock: { now: () => this.#scheduler.clock },
      random: this.#random,
      deliverAccess: (projects: readonly string[]) => this.modules.deliverAccess(this.env, projects),
    };
    return this.modules.tools[name](input, context);
  }

  /** One request to the relay API. */
  async relay(request: Request): Promise<Response> {
    const { deviceTokenEndpoint, relayRoutes } = this.modules;
    if (new URL(request.url).pathname.endsWith("/token")) return deviceTokenEndpoint(request, this.env, {});
    return relayRoutes.fetch(request, this.env, { waitUntil: () => {}, passThroughOnException: () => {} });
  }

  /** The scheduled work, each minute's. */
  scheduled(): Promise<void> {
    return this.modules.everyMinute(this.env);
  }

  close(): void {
    this.objects.close();
    this.d1.database.close();
  }
}

const key = {
  kty: "EC",
  crv: "P-256",
  x: "x".repeat(43),
  y: "y".repeat(43),
  d: "d".repeat(43),
  kid: "key-1",
};
let worlds = 0;
/** The same keys in another text for each world: what the Worker remembers under them is not of an earlier world. */
const newSigningKeys = (): string => JSON.stringify({ keys: [key], world: ++worlds });

/** Every rate limit that the Worker is bound to lets everything through: the simulated network refuses enough. */
function withRateLimits<T extends object>(env: T): T {
  const limit = { limit: () => Promise.resolve({ success: true }) };
  return new Proxy(env, {
    get: (target, name) =>
      name in target ? target[name as keyof T] : String(name).startsWith("LIMIT_") ? limit : undefined,
  });
}

function d1Weather(faults: Faults): { there: number; back: number; fails?: "before" | "after" } {
  const fault = faults.strike("d1", "d1");
  switch (fault?.kind) {
    case "slow":
      return { there: fault.dice.int(0, 20_000), back: fault.dice.int(0, 20_000) };
    case "fails_before":
      return { there: 10, back: 0, fails: "before" };
    case "fails_after":
      return { there: 10, back: fault.dice.int(0, 5_000), fails: "after" };
    default:
      return { there: 1, back: 0 };
  }
}

function callWeather(
  faults: Faults,
  name: string,
): { there: number; back: number; evict?: "before" | "after" } {
  const fault = faults.strike("object", name);
  switch (fault?.kind) {
    case "evicted_before":
      return { there: 1, back: 0, evict: "before" };
    case "evicted_after":
      return { there: 1, back: 0, evict: "after" };
    case "slow":
      return { there: fault.dice.int(0, 10_000), back: fault.dice.int(0, 10_000) };
    default:
      return { there: 1, back: 0 };
  }
}

function alarmWeather(faults: Faults, name: string): { late: number; doubled: boolean } {
  const fault = faults.strike("alarm", name);
  return {
    late: fault?.kind === "late" ? fault.dice.int(100, 120_000) : 0,
    doubled: fault?.kind === "doubled",
  };
}

/** Loads what the world runs of the Worker. Once a thread, after the loader is installed. */
export async function loadWorker(): Promise<WorkerModules> {
  const load = (path: string) => importProduct(`src/${path}`) as Promise<Record<string, never>>;
  const [list, run, get, ...rest] = await Promise.all(
    [
      "worker/mcp/tools/list.ts",
      "worker/mcp/tools/run.ts",
      "worker/mcp/tools/get.ts",
      "durable/project-queue.ts",
      "worker/queues.ts",
      "worker/access.ts",
      "worker/scheduled.ts",
      "worker/db/client.ts",
      "worker/db/agents.ts",
      "worker/db/devices.ts",
      "worker/relay-api/index.ts",
      "worker/relay-api/token.ts",
    ].map(load),
  );
  return {
    ...Object.assign({}, ...rest),
    tools: {
      list_graph_sessions: list?.listGraphSessions,
      run_graph_session: run?.runGraphSession,
      get_graph_run: get?.getGraphRun,
      cancel_graph_run: get?.cancelGraphRun,
    },
  } as unknown as WorkerModules;
}
