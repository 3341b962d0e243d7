import { fileURLToPath } from "node:url";
import type { Engine, RunOutcome } from "../../relay-cli/engine/contract.ts";
import type { RelayOptions, RelayPorts, Transport, WakeConnector } from "../../relay-cli/relay/ports.ts";
import type { Store } from "../../relay-cli/store/contract.ts";
import type { ProjectQueueApi, RunView } from "../../src/durable/contract.ts";
import { newCommandId, newId, newProjectId, newUuid } from "../../src/protocol/ids.ts";
import { DEFAULT_SETTINGS } from "../../src/protocol/limits.ts";
import { type Dice, dice } from "../../test/sim/core/dice.ts";
import { Faults } from "../../test/sim/core/faults.ts";
import { History } from "../../test/sim/core/history.ts";
import { ROOT } from "../../test/sim/core/loader.ts";
import { Scheduler } from "../../test/sim/core/scheduler.ts";
import { Disk, openDisk } from "../../test/sim/laptop/disk.ts";
import { Machine, Process } from "../../test/sim/laptop/process.ts";
import { wakeConnector } from "../../test/sim/laptop/wake.ts";
import { SimulatedD1 } from "../../test/sim/server/d1.ts";
import { ObjectDisk, objectStorage } from "../../test/sim/server/object-storage.ts";
import type { SimulatedSocket } from "../../test/sim/server/sockets.ts";

/** The product's modules that an experiment runs. */
export interface Product {
  ProjectQueue: new (context: unknown, env: unknown) => ProjectQueueApi & { alarm(): Promise<void> };
  createRelayRoutes(deps: object): { fetch(request: Request, env: object): Response | Promise<Response> };
  createRelay(ports: RelayPorts, options: RelayOptions): { run(): Promise<unknown>; wake(): void };
  createStore(sql: unknown): Store;
  migrate(sql: unknown): void;
}

/** What a laboratory has besides the usual: more sessions, runs side by side, wake sockets. */
export interface Setting {
  sessions?: number;
  concurrency?: number;
  wakes?: boolean;
}

/** How long a Graph takes to end once it is told to stop, in milliseconds: what the write-up's figures show. */
const STOP_MS = 500;
const START = Date.UTC(2026, 2, 1, 12);
const SERVER = "https://relay.example";

/**
 * One laptop and one project: the product's object, its relay and its store on a virtual clock, with a
 * network that takes no time. Graphs are timers; how long one runs is in its arguments.
 */
export class Laboratory {
  readonly scheduler = new Scheduler(START);
  readonly random: Dice;
  readonly project: string;
  readonly agent: string;
  readonly other: string;
  readonly sessions: string[];
  readonly object: ProjectQueueApi;
  /** What stands between relay and server; an experiment may put trouble there. */
  network: (call: string, serve: () => Promise<Response>) => Promise<Response> = (_call, serve) => serve();
  /** Graphs that were started. */
  started = 0;
  readonly #device: string;
  readonly #disk = new Disk();
  readonly #objectDisk = new ObjectDisk();
  readonly #d1 = new SimulatedD1(fileURLToPath(new URL("migrations", ROOT)), {
    next: () => ({ there: 0, back: 0 }),
    sleep: (ms) => this.scheduler.sleep(ms),
  });

  constructor(
    product: Product,
    name: string,
    { sessions = 1, concurrency = 1, wakes = false }: Setting = {},
  ) {
    this.random = dice("experiment", name);
    this.project = newProjectId(this.random);
    this.agent = newId("agt", this.random);
    this.other = newId("agt", this.random);
    this.#device = newId("dev", this.random);
    this.sessions = Array.from({ length: sessions }, () => newId("gs", this.random));
    this.object = this.#openObject(product);
    const rows = [
      ["INSERT INTO accounts (id, name, created_at) VALUES (?, '', 0)", "account"],
      [
        "INSERT INTO projects (id, account_id, name, settings, created_at) VALUES (?, 'account', '', '{}', 0)",
        this.project,
      ],
      [
        `INSERT INTO devices (id, account_id, name, platform, client_version, public_jwk, thumbprint, created_at)
         VALUES (?, 'account', '', '', '', '', '', 0)`,
        this.#device,
      ],
    ] as const;
    for (const [sql, id] of rows) this.#d1.apply(sql, [id]);
    this.#startRelay(product, concurrency, wakes);
  }

  /** Seconds since the beginning. */
  get now(): number {
    return (this.scheduler.now - START) / 1000;
  }

  /** Lets the world go on until `work` is done. */
  async until<T>(work: Promise<T>): Promise<T> {
    let over = false;
    const done = work.finally(() => {
      over = true;
    });
    done.catch(() => {});
    await this.scheduler.runUntil(Number.POSITIVE_INFINITY, () => over);
    return done;
  }

  sleep(seconds: number): Promise<void> {
    return this.scheduler.sleep(seconds * 1000);
  }

  /** Gives agent and laptop access, and lets the relay make its first passes. */
  async begin(): Promise<void> {
    await this.object.applyAccess({
      project_id: this.project,
      version: 1,
      agents: [this.agent, this.other].map((agent_id) => ({ agent_id, name: "agent" })),
      devices: [{ device_id: this.#device }],
      settings: { ...DEFAULT_SETTINGS, max_queued_per_project: 1000, max_queued_per_agent: 1000 },
    });
    await this.sleep(60);
  }

  /** Queues a run of `seconds`. */
  async run(seconds: number, key = newUuid(this.random), session = this.sessions[0] ?? ""): Promise<RunView> {
    const answer = await this.object.enqueue({
      agent_id: this.agent,
      command_id: newCommandId(this.project, this.random),
      graph_session_id: session,
      device_id: this.#device,
      slug: this.#slug(this.sessions.indexOf(session)),
      arguments_json: JSON.stringify({ milliseconds: Math.round(seconds * 1000) }),
      idempotency_key: key,
    });
    if (!answer.ok) throw new Error(answer.error);
    return answer.run;
  }

  get(command_id: string, wait = 0, agent_id = this.agent): Promise<RunView | undefined> {
    return this.object.getRun({ agent_id, command_id, wait_ms: wait * 1000 });
  }

  /** The run once it has ended, read by an agent that waits for it on the server. */
  async ended(command_id: string): Promise<RunView> {
    for (;;) {
      const run = await this.get(command_id, 50);
      if (run?.finished_at !== undefined && run.status !== "lost") return run;
      if (run === undefined) throw new Error("the run is gone");
      if (run.status === "lost") await this.sleep(5);
    }
  }

  close(): void {
    this.#disk.close();
    this.#objectDisk.close();
    this.#d1.database.close();
  }

  #slug = (n: number): string => `graph-${n}`;

  #openObject(product: Product): ProjectQueueApi {
    let timer: { cancel(): void } | undefined;
    const ring = () => {
      this.#objectDisk.alarm = null;
      void object.alarm();
    };
    const sockets: SimulatedSocket[] = [];
    const armed = () => {
      timer?.cancel();
      const at = this.#objectDisk.alarm;
      if (at !== null) timer = this.scheduler.at(at, ring);
    };
    const context = {
      id: { name: this.project },
      storage: objectStorage(
        this.#objectDisk,
        () => {},
        () => {},
        armed,
      ),
      blockConcurrencyWhile: (work: () => Promise<unknown>) => work(),
      waitUntil: () => {},
      acceptWebSocket: (socket: SimulatedSocket, tags: string[]) => {
        socket.tags = tags;
        sockets.push(socket);
      },
      getWebSockets: (tag?: string) => sockets.filter((s) => tag === undefined || s.tags.includes(tag)),
      getTags: (socket: SimulatedSocket) => socket.tags,
    };
    const object = new product.ProjectQueue(context, {});
    this.scheduler.afterEach = () => this.#objectDisk.endTurn();
    return object;
  }

  #startRelay(product: Product, concurrency: number, wakes: boolean): void {
    const sql = openDisk(this.#disk, () => {}, { write: () => undefined, kill: () => undefined as never });
    product.migrate(sql);
    const store = product.createStore(sql);
    store.device.pair(
      {
        device_id: this.#device,
        account_name: "owner",
        server_url: SERVER,
        name: "laptop",
        private_jwk: "{}",
        paired_at: 0,
      },
      [{ project_id: this.project, name: "project" }],
    );
    for (const [n, id] of this.sessions.entries()) {
      const slug = this.#slug(n);
      store.graphs.add({
        graph_session_id: id,
        slug,
        name: slug,
        description: "",
        version: "1",
        path: `/${slug}.mjs`,
        arguments_schema: null,
        added_at: 0,
      });
      store.projects.share(this.project, id, 0);
    }
    const process = new Process(new Machine(this.scheduler));
    const door = this.#routes(product);
    const ports: RelayPorts = {
      clock: process.clock(),
      transport: this.#transport(door),
      ...(wakes ? { wakeSocket: this.#wakeSocket(process, door) } : {}),
      random: dice("relay", this.project),
      store,
      engine: this.#engine(process),
      signer: { sign: () => Promise.resolve("assertion") },
      isReady: () => true,
      log: { info: () => {}, warn: () => {} },
    };
    const relay = product.createRelay(ports, { serverUrl: SERVER, clientVersion: "0.1.0", concurrency });
    void relay.run();
  }

  /** Graphs that last as long as their arguments say, and end half a second after they are told to. */
  #engine(process: Process): Engine {
    const stops = new Map<string, () => void>();
    const ended = { total_tokens: null, reported_cost: null };
    return {
      run: ({ args, onEvent }) =>
        new Promise<RunOutcome>((resolve) => {
          this.started++;
          const id = newUuid(this.random);
          const end = process.after(Number(args.milliseconds), () =>
            resolve({ status: "completed", result_json: "null", ...ended }),
          );
          stops.set(id, () => {
            end.cancel();
            process.after(STOP_MS, () => resolve({ status: "cancelled", ...ended }));
          });
          onEvent({ type: "fleet_started", run_id: id });
        }),
      fleetCancelRun: (id) => {
        stops.get(id)?.();
        return stops.delete(id);
      },
      describe: () => Promise.resolve({ ok: false, error: "not simulated" }),
    };
  }

  /** The relay API's own routes, for this device. */
  #routes(product: Product): (request: Request) => Promise<Response> {
    const device = { device_id: this.#device, account_id: "account", projects: [this.project], issued_at: 1 };
    const queues = {
      call: <T>(_project: string, use: (queue: ProjectQueueApi) => T): T => use(this.object),
    };
    const routes = product.createRelayRoutes({
      authenticate: () => Promise.resolve(device),
      queues: () => queues,
      now: () => this.scheduler.clock,
    });
    return async (request) => routes.fetch(request, { DB: this.#d1 });
  }

  #transport(door: (request: Request) => Promise<Response>): Transport {
    const token = { access_token: "token", token_type: "Bearer", expires_in: 900 };
    return (url, init) =>
      this.network(url.split("/").at(-1) ?? "", async () =>
        url.endsWith("/token") ? Response.json(token) : door(new Request(url, { ...init, signal: null })),
      );
  }

  #wakeSocket(process: Process, door: (request: Request) => Promise<Response>): WakeConnector {
    const { scheduler } = this;
    const quiet = {
      faults: new Faults(0, {}, undefined),
      history: new History(() => scheduler.clock, false),
    };
    return wakeConnector({ scheduler, ...quiet, offline: new Set(), door }, process, "laptop");
  }
}
