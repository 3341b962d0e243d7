import type { RelayPorts } from "../../../relay-cli/relay/ports.ts";
import type { Store } from "../../../relay-cli/store/contract.ts";
import type { Dice } from "../core/dice.ts";
import { dice } from "../core/dice.ts";
import type { Faults } from "../core/faults.ts";
import type { History } from "../core/history.ts";
import type { Scheduler } from "../core/scheduler.ts";
import type { Break } from "../invariants/guarantees.ts";
import type { LaptopFacts, Witness } from "../invariants/witness.ts";
import { Disk, openDisk } from "../laptop/disk.ts";
import { simulatedEngine } from "../laptop/engine.ts";
import type { Network } from "../laptop/network.ts";
import { Killed, Machine, Process } from "../laptop/process.ts";
import type { Account, Laptop } from "../scenario/scenario.ts";
import { watchAnswers } from "./laptop-answers.ts";
import { privateJwk, signAssertion } from "./laptop-key.ts";

/** The relay's modules: the product's own, loaded after the mutations are in place. */
export interface RelayModules {
  migrate(sql: unknown): void;
  createStore(sql: unknown): Store;
  createRelay(ports: RelayPorts, options: object): Relay;
}
/** What `createRelay` answers with, as far as the world uses it. */
interface Relay {
  run(): Promise<{ refused?: { code: string } }>;
  drain(): void;
  cancel(): void;
  wake(): void;
}

export interface LaptopWorld {
  seed: number;
  scheduler: Scheduler;
  faults: Faults;
  history: History;
  network: Network;
  witness: Witness;
  broken: Break;
  modules: RelayModules;
}

const ORIGIN = "https://relay.example";

interface Life {
  process: Process;
  relay: Relay;
  /** How often it was told to stop. */
  told: number;
}

/** A laptop: its disk, its machine, its owner's wishes, and the relay that runs on it now and then. */
export class SimulatedLaptop {
  readonly facts: Laptop;
  readonly account: Account;
  readonly disk: Disk;
  readonly machine: Machine;
  /** What the owner shares at this moment, as `project session slug`. */
  readonly consent = new Set<string>();
  readonly refused = new Set<string>();
  readonly name: string;
  /** Relays end for good when the server says that the device is gone. */
  removed = false;
  logLines = 0;
  /** From now on a relay that was told to stop is started again. */
  staysOn = false;
  /** There is a second laptop that goes by this one's device. */
  isCopied = false;
  readonly #world: LaptopWorld;
  readonly #slugs: Map<string, string>;
  readonly #shares: Set<string>;
  readonly #enabled: Set<string>;
  #relay: Life | undefined;
  #lives = 0;

  constructor(
    world: LaptopWorld,
    account: Account,
    facts: Laptop,
    original?: SimulatedLaptop,
    name = facts.name,
  ) {
    this.#world = world;
    this.facts = facts;
    this.account = account;
    this.name = name;
    this.machine = new Machine(world.scheduler);
    this.disk = new Disk(original?.disk);
    this.#slugs = new Map(original ? original.#slugs : facts.graphs.map((g) => [g.id, g.slug]));
    this.#shares = new Set(original ? original.#shares : facts.shares.map((s) => `${s.project} ${s.graph}`));
    this.#enabled = new Set(original ? original.#enabled : facts.shares.map((s) => s.project));
    if (original) {
      this.isCopied = original.isCopied = true;
      this.#store().attempts.disown();
    }
    if (!original) this.#setUp();
    this.#updateConsent();
  }

  /** Nothing runs here, and nothing waits to be sent or asked for. */
  atRest(): boolean {
    if (this.#relay === undefined) return true;
    const waits = this.disk.database
      .prepare(
        "SELECT (SELECT count(*) FROM outbox) + (SELECT count(*) FROM attempts WHERE state <> 'ended') AS n",
      )
      .get();
    return this.#running.size === 0 && waits?.n === 0;
  }

  /** A relay is running, or frozen with its machine. */
  get running(): boolean {
    return this.#relay !== undefined;
  }

  start(): void {
    if (this.#relay !== undefined || this.removed) return;
    const process = new Process(this.machine);
    const random = dice(this.#world.seed, this.name, "life", ++this.#lives);
    const options = { serverUrl: ORIGIN, clientVersion: "0.1.0", concurrency: this.facts.concurrency };
    const life: Life = {
      process,
      relay: this.#world.modules.createRelay(this.#ports(process, random), options),
      told: 0,
    };
    this.#relay = life;
    this.#world.history.add(this.name, "relay starts");
    const running = new Map<string, string>();
    this.#running = running;
    life.relay.run().then(
      (end) => this.#ended(life, end.refused?.code),
      (error: unknown) => {
        if (process.alive)
          this.#world.broken("the world goes on", `the relay of ${this.name} threw ${String(error)}`);
      },
    );
  }

  #ended(life: Life, refused: string | undefined): void {
    if (!life.process.alive || this.#relay !== life) return;
    this.#world.history.add(this.name, "relay ends", { refused });
    life.process.kill();
    this.#relay = undefined;
    if (this.staysOn) this.start();
    if (life.told === 0 && refused !== "device_removed")
      this.#world.broken(
        "the world goes on",
        `the relay of ${this.name} ended by itself: ${refused ?? "for no reason"}`,
      );
  }

  /** As SIGTERM does; the second time it does not wait for what runs. */
  stop(): void {
    const life = this.#relay;
    if (life === undefined) return;
    this.machine.reach(() => (life.told++ === 0 ? life.relay.drain() : life.relay.cancel()));
  }

  /** As SIGKILL does. The Graphs go with it. */
  kill(why: string): void {
    if (this.#relay === undefined) return;
    this.#world.history.add(this.name, `relay is killed ${why}`);
    this.#world.witness.died(this.#running.values());
    this.#relay.process.kill();
    this.#relay = undefined;
  }

  #running = new Map<string, string>();

  get witnessFacts(): LaptopFacts {
    return {
      name: this.name,
      concurrency: this.facts.concurrency,
      isCopied: this.isCopied,
      consent: this.consent,
      refused: this.refused,
      running: this.#running,
    };
  }

  /** One of the owner's commands on this machine: another process on the same state file. */
  owner(work: (store: Store) => void): void {
    work(this.#store());
    this.#updateConsent();
  }

  share(project: string, graph: string, shared: boolean): void {
    this.owner((store) => {
      if (shared) store.projects.share(project, graph, this.machine.wall());
      else store.projects.unshare(project, graph);
    });
    if (shared) this.#shares.add(`${project} ${graph}`).add(`${project} ${graph}`);
    else this.#shares.delete(`${project} ${graph}`);
    if (shared) this.#enabled.add(project);
    this.#updateConsent();
  }

  enable(project: string, enabled: boolean): void {
    this.owner((store) => store.projects.setEnabled(project, enabled));
    if (enabled) this.#enabled.add(project);
    else this.#enabled.delete(project);
    this.#updateConsent();
  }

  rename(graph: string, slug: string): void {
    this.owner((store) => {
      const row = store.graphs.find(graph);
      if (row) store.graphs.update({ ...row, slug });
    });
    this.#slugs.set(graph, slug);
    this.#updateConsent();
  }

  close(): void {
    this.#relay?.process.kill();
    this.disk.close();
  }

  #log(level: string, line: string): void {
    this.logLines++;
    this.#world.history.add(this.name, level, line);
  }

  /** The store as another process sees it, without faults. */
  #store(): Store {
    const sql = openDisk(this.disk, () => {}, {
      write: () => undefined,
      kill: () => {
        throw new Killed();
      },
    });
    return this.#world.modules.createStore(sql);
  }

  #updateConsent(): void {
    this.consent.clear();
    for (const share of this.#shares) {
      const [project, graph] = share.split(" ") as [string, string];
      if (this.#enabled.has(project)) this.consent.add(`${project} ${graph} ${this.#slugs.get(graph)}`);
    }
  }

  #setUp(): void {
    const sql = openDisk(this.disk, () => {}, { write: () => undefined, kill: () => undefined as never });
    this.#world.modules.migrate(sql);
    const store = this.#world.modules.createStore(sql);
    const wall = this.machine.wall();
    store.device.pair(
      {
        device_id: this.facts.deviceId,
        account_name: this.account.id,
        server_url: ORIGIN,
        name: this.name,
        private_jwk: JSON.stringify(privateJwk(this.facts.deviceId)),
        paired_at: wall,
      },
      this.account.projects.map((p) => ({ project_id: p.id, name: p.id })),
    );
    for (const graph of this.facts.graphs)
      store.graphs.add({
        graph_session_id: graph.id,
        slug: graph.slug,
        name: graph.slug,
        description: "",
        version: "1",
        path: `/graphs/${graph.slug}.mjs`,
        arguments_schema: null,
        added_at: wall,
      });
    for (const share of this.facts.shares) store.projects.share(share.project, share.graph, wall);
  }

  #ports(process: Process, random: Dice): RelayPorts {
    const { faults, history, network, witness } = this.#world;
    const die = (why: string): never => {
      if (this.#relay?.process === process) this.kill(why);
      throw new Killed();
    };
    const sql = openDisk(this.disk, () => process.check(), {
      write: () => faults.strike("disk", this.name)?.kind as "full" | undefined,
      kill: () => die("at a write"),
    });
    const store = this.#world.modules.createStore(sql);
    const sessionOf = (path: string) =>
      this.facts.graphs.find((g) => path === `/graphs/${g.slug}.mjs`)?.id ?? path;
    const clock = process.clock();
    const mayDie = (): void => {
      if (faults.strike("await", this.name)) this.kill("at an await");
    };
    return {
      clock: {
        ...clock,
        sleep: (ms, signal) => {
          mayDie();
          return clock.sleep(ms, signal);
        },
      },
      transport: watchAnswers(network.transport(process, this.name), this.#world.broken, this, mayDie),
      isReady: () => true,
      ...(this.facts.wakes ? { wakeSocket: network.wakeSocket(process, this.name) } : {}),
      random,
      store,
      engine: simulatedEngine(process, dice(this.#world.seed, this.name, "engine", this.#lives), {
        started: (request) => {
          const session = sessionOf(request.graph.path);
          history.add(this.name, "starts", { channel: request.channel, slug: request.graph.slug });
          witness.started(this.witnessFacts, session, request);
        },
        finished: (request, outcome) => {
          history.add(this.name, `${outcome.status}`, { channel: request.channel });
          witness.finished(this.witnessFacts, sessionOf(request.graph.path), request, outcome);
        },
        told: (request) => {
          history.add(this.name, "told to stop", { channel: request.channel });
          witness.told(request);
        },
      }),
      signer: {
        sign: async (audience, serverTime) => {
          process.check();
          return signAssertion(this.facts.deviceId, audience, serverTime, random);
        },
      },
      log: {
        info: (line) => this.#log("info", line),
        warn: (line) => this.#log("warn", line),
      },
    };
  }
}
