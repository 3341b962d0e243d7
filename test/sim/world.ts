import type { CommandState } from "../../src/protocol/states.ts";
import { SimulatedAgent } from "./actors/agent.ts";
import type { RelayModules } from "./actors/laptop.ts";
import { SimulatedLaptop } from "./actors/laptop.ts";
import { Owner } from "./actors/owner.ts";
import { dice } from "./core/dice.ts";
import { Faults } from "./core/faults.ts";
import { History } from "./core/history.ts";
import { Scheduler, TimeStandsStill } from "./core/scheduler.ts";
import { checkEnd, checkForgotten } from "./invariants/end.ts";
import type { Guarantee, Violation } from "./invariants/guarantees.ts";
import { watchStates } from "./invariants/states.ts";
import { Witness } from "./invariants/witness.ts";
import { Network } from "./laptop/network.ts";
import { perform } from "./perform.ts";
import type { Scenario } from "./scenario/scenario.ts";
import { Server, type WorkerModules } from "./server/server.ts";

/** When every world begins. */
const START = Date.UTC(2026, 2, 1, 12);
/** How long after the faults everything may take to come to rest, in milliseconds, beside the Graphs' own time. */
const REST_MS = 30 * 60_000;
/** How long the network must be whole before anything is expected: a relay's longest pause, twice. */
const SETTLE_MS = 130_000;
/** Two passes of a relay, and a bit. */
const PASSES_MS = 45_000;
const MINUTE = 60_000;

export interface Modules {
  worker: WorkerModules;
  relay: RelayModules;
}

export interface RunOptions {
  /** Every agent asks again and again. */
  busy: boolean;
  /** Keep the history's lines. */
  trace: boolean;
  /** The names of the operations and faults that may happen: of all that the seed has, if it is absent. */
  only?: ReadonlySet<string> | undefined;
}

/** What came of one seed. */
export interface RunResult {
  violations: Violation[];
  digest: string;
  lines: string[];
  /** Names of the operations and faults that happened. */
  happened: string[];
  commands: number;
  starts: number;
  finished: number;
}

/** One world, from its first moment until nothing is left of it but what must be. */
export class World {
  readonly scenario: Scenario;
  readonly scheduler = new Scheduler(START);
  readonly history: History;
  readonly faults: Faults;
  readonly server: Server;
  readonly network: Network;
  readonly owner: Owner;
  readonly witness: Witness;
  readonly agents = new Map<string, SimulatedAgent>();
  readonly laptops = new Map<string, SimulatedLaptop>();
  readonly violations: Violation[] = [];
  readonly broken = (guarantee: Guarantee, detail: string): void => {
    this.history.add("!", guarantee, detail);
    this.violations.push({ guarantee, detail });
  };
  readonly #modules: Modules;
  #ending = false;

  constructor(scenario: Scenario, modules: Modules, options: RunOptions) {
    this.scenario = scenario;
    this.#modules = modules;
    this.history = new History(() => this.scheduler.clock, options.trace);
    this.faults = new Faults(scenario.seed, scenario.rates, options.only);
    this.witness = new Witness(() => this.scheduler.clock, this.broken);
    this.server = new Server(modules.worker, this.scheduler, this.faults, dice(scenario.seed, "server"));
    this.network = new Network(this.scheduler, this.faults, this.history, (request) =>
      this.server.relay(request),
    );
    this.owner = new Owner(this.server, () => this.scheduler.clock);
    this.server.objects.onNew = (project, disk) =>
      watchStates(project, disk, () => this.scheduler.clock, this.broken, {
        queued: (command) => {
          this.history.add("object", "queued", command);
          this.witness.queued(command);
        },
        moved: (command_id, from, to) => {
          this.history.add("object", `${from} → ${to}`, command_id);
          this.witness.moved(command_id, to);
        },
      });
    this.scheduler.afterEach = () => this.server.objects.endTurns();
  }

  async run(options: RunOptions): Promise<RunResult> {
    const happened: string[] = [];
    try {
      await this.#live(options, happened);
    } catch (error) {
      if (!(error instanceof TimeStandsStill)) throw error;
      this.broken("the world goes on", error.message);
    }
    happened.push(...this.faults.struck);
    const commands = [...this.witness.commands.values()];
    const result: RunResult = {
      violations: this.violations,
      digest: this.history.digest(),
      lines: this.history.lines,
      happened,
      commands: commands.length,
      starts: commands.filter((c) => c.run).length,
      finished: commands.filter((c) => c.run?.outcome).length,
    };
    for (const laptop of this.laptops.values()) laptop.close();
    this.server.close();
    return result;
  }

  async #live(options: RunOptions, happened: string[]): Promise<void> {
    await this.#begin();
    for (const operation of this.scenario.operations) {
      const name = `${operation.do}#${operation.n}`;
      if (options.only?.has(name) === false || operation.at >= this.scenario.calmAt) continue;
      happened.push(name);
      this.scheduler.at(START + operation.at, () => perform(this, operation));
    }
    this.#everyMinute();
    await this.scheduler.runUntil(START + this.scenario.calmAt);
    await this.#calm();
    const broken = () => this.violations.length > 0;
    await this.scheduler.runUntil(this.scheduler.now + SETTLE_MS, broken);
    if (!this.#atRest()) {
      await this.scheduler.runUntil(this.scheduler.now + REST_MS, () => broken() || this.#atRest());
      // Graphs that take long, one after the other, may take longer than that.
      const all = this.scheduler.now + graphTime(this.scenario);
      await this.scheduler.runUntil(all, () => broken() || !this.#anyOpen("queued", "running"));
      // What was busy until now has its next passes still before it.
      await this.scheduler.runUntil(this.scheduler.now + PASSES_MS, broken);
    }
    if (this.violations.length === 0) checkEnd(this);
    if (this.violations.length === 0) await this.#forget();
  }

  /** Adds a laptop: one of the scenario's, or a copy of another's state folder on a machine of its own. */
  addLaptop(name: string, original?: SimulatedLaptop): SimulatedLaptop | undefined {
    const account = this.scenario.accounts.find((a) =>
      a.laptops.some((l) => l.name === (original?.facts.name ?? name)),
    );
    const facts = account?.laptops.find((l) => l.name === (original?.facts.name ?? name));
    if (account === undefined || facts === undefined) return undefined;
    const { scheduler, faults, history, network, witness, broken } = this;
    const world = {
      seed: this.scenario.seed,
      scheduler,
      faults,
      history,
      network,
      witness,
      broken,
      modules: this.#modules.relay,
    };
    const laptop = new SimulatedLaptop(world, account, facts, original, name);
    this.laptops.set(name, laptop);
    return laptop;
  }

  async #begin(): Promise<void> {
    this.faults.active = false;
    const marks = new Map<string, string>();
    for (const account of this.scenario.accounts) {
      let founded = false;
      void this.owner.found(account).then(() => {
        founded = true;
      });
      await this.scheduler.runUntil(START + 1_000, () => founded);
      for (const agent of account.agents)
        this.agents.set(
          agent.name,
          new SimulatedAgent(agent, account.id, this, { broken: this.broken, witness: this.witness, marks }),
        );
      for (const laptop of account.laptops) this.addLaptop(laptop.name)?.start();
    }
    this.faults.active = true;
  }

  /** The scheduled work of the Worker, each minute while the world runs. */
  #everyMinute(): void {
    this.scheduler.after(MINUTE, () => {
      if (this.#ending) return;
      void this.server
        .scheduled()
        .catch((error: unknown) => this.history.add("cron", "failed", String(error)));
      this.#everyMinute();
    });
  }

  /** All faults end: the network is whole, and every laptop is there. */
  async #calm(): Promise<void> {
    this.faults.active = false;
    this.history.add("world", "calm");
    this.witness.calmAt = this.scheduler.clock;
    this.network.offline.clear();
    for (const laptop of this.laptops.values()) {
      laptop.machine.wake();
      laptop.staysOn = true;
      laptop.start();
    }
  }

  /** Nothing is left to happen but the passing of time. */
  #atRest(): boolean {
    if (this.#anyOpen("queued", "running", "lost")) return false;
    for (const laptop of this.laptops.values()) if (!laptop.atRest()) return false;
    return true;
  }

  #anyOpen(...states: CommandState[]): boolean {
    return [...this.witness.commands.values()].some((command) => states.includes(command.state));
  }

  /** Lets every record's time run out, with the laptops off, and looks at what is left. */
  async #forget(): Promise<void> {
    for (const laptop of this.laptops.values()) {
      laptop.staysOn = false;
      laptop.kill("at the end");
    }
    this.#ending = true;
    for (let i = 0; i < 5; i++) {
      await this.scheduler.runUntil(this.scheduler.now + 90 * 86_400_000);
      let swept = false;
      void this.server.scheduled().then(() => {
        swept = true;
      });
      await this.scheduler.runUntil(this.scheduler.now + MINUTE, () => swept);
    }
    checkForgotten(this);
  }
}

/** How long all Graphs that are asked for run, one after the other, in milliseconds. */
const graphTime = ({ operations }: Scenario): number =>
  operations.reduce((sum, o) => sum + (o.do === "run" ? (o.behaviour.ends_after ?? 0) : 0), 0);
