import { TOOL_ERRORS } from "../../../src/protocol/errors.ts";
import type { AgentAuth } from "../../../src/worker/auth.ts";
import type { Faults } from "../core/faults.ts";
import type { History } from "../core/history.ts";
import type { Scheduler } from "../core/scheduler.ts";
import type { Break } from "../invariants/guarantees.ts";
import type { Witness } from "../invariants/witness.ts";
import type { Behaviour } from "../laptop/engine.ts";
import type { Agent, Patience } from "../scenario/scenario.ts";
import type { Server, ToolAnswer, ToolName } from "../server/server.ts";

/** What an agent asked for under one key: the request that the key belongs to, and the tickets it got. */
interface Ask {
  graph: string;
  behaviour: Behaviour;
  command_id?: string;
}

/** How long an agent waits for an answer before it sends the same call again, and how often. */
const PATIENCE_MS = 90_000;
const TRIES = 5;

/**
 * A connected agent that does what the tools' descriptions say: a new key for each run, the same key again
 * after a lost answer. It holds what it is told against what it knows.
 */
export class SimulatedAgent {
  readonly facts: Agent;
  readonly auth: AgentAuth;
  readonly #world: { scheduler: Scheduler; faults: Faults; history: History; server: Server };
  readonly #broken: Break;
  readonly #witness: Witness;
  readonly #asks = new Map<string, Ask>();
  /** Keys that this agent has used for two different requests. */
  readonly #mixed = new Set<string>();
  /** Marks of every agent in the world, by their owner's name. */
  readonly #marks: Map<string, string>;

  constructor(
    facts: Agent,
    accountId: string,
    world: { scheduler: Scheduler; faults: Faults; history: History; server: Server },
    checks: { broken: Break; witness: Witness; marks: Map<string, string> },
  ) {
    this.facts = facts;
    this.auth = {
      agent_id: facts.id,
      account_id: accountId,
      client_id: facts.clientId,
      scopes: ["osfoundry:read", "osfoundry:run"],
      projects: facts.projects,
    };
    this.#world = world;
    this.#broken = checks.broken;
    this.#witness = checks.witness;
    this.#marks = checks.marks;
  }

  /** The command that a key was answered with, as soon as there is one. */
  commandOf(key: string): string | undefined {
    return this.#asks.get(key)?.command_id;
  }

  /** Asks for a run until it has a ticket, then follows it as its patience lasts. */
  async run(graph: string, key: string, behaviour: Behaviour, patience: Patience): Promise<void> {
    this.#marks.set(behaviour.mark, this.facts.name);
    const ticket = await this.ask(graph, key, behaviour);
    if (ticket === undefined) return;
    for (let i = 0; i < patience.questions; i++) {
      const answer = await this.#call("get_graph_run", {
        command_id: ticket,
        wait_seconds: patience.wait_seconds,
      });
      if (answer === undefined || answer.isError) return;
      if (!["queued", "running", "lost"].includes(String(answer.structuredContent.status))) return;
      await this.#world.scheduler.sleep(patience.pause);
    }
  }

  /** One request for a run, repeated while its answer is lost. Its ticket, if it got one. */
  async ask(graph: string, key: string, behaviour: Behaviour): Promise<string | undefined> {
    const first = this.#asks.get(key);
    const ask = first ?? { graph, behaviour };
    this.#asks.set(key, ask);
    const same = ask.graph === graph && ask.behaviour.mark === behaviour.mark;
    if (!same) this.#mixed.add(key);
    this.#marks.set(behaviour.mark, this.facts.name);
    const input = { graph_session_id: graph, idempotency_key: key, arguments: { behaviour } };
    for (let i = 0; i < TRIES; i++) {
      const answer = await this.#call("run_graph_session", input);
      if (answer === undefined) continue;
      return this.#readTicket(answer, key, ask, same);
    }
    return undefined;
  }

  /** Asks again for what it asked for under this key. */
  async again(key: string): Promise<void> {
    const ask = this.#asks.get(key);
    if (ask !== undefined) await this.ask(ask.graph, key, ask.behaviour);
  }

  async cancel(command_id: string): Promise<void> {
    for (let i = 0; i < TRIES; i++) {
      const answer = await this.#call("cancel_graph_run", { command_id });
      if (answer === undefined) continue;
      if (!answer.isError) this.#readCancel(command_id, answer.structuredContent);
      return;
    }
  }

  /** Tries a command that may be another agent's. */
  async peek(command_id: string, cancel: boolean): Promise<void> {
    const owner = this.#witness.commands.get(command_id)?.agent_id;
    const answer = cancel
      ? await this.#call("cancel_graph_run", { command_id })
      : await this.#call("get_graph_run", { command_id, wait_seconds: 0 });
    if (answer === undefined || owner === this.facts.id) {
      if (cancel && answer !== undefined && !answer.isError)
        this.#readCancel(command_id, answer.structuredContent);
      return;
    }
    const nothing = { error_code: "run_not_found", error: TOOL_ERRORS.run_not_found };
    const busy = ["unavailable", "internal"].includes(String(answer.structuredContent.error_code));
    if (!busy && JSON.stringify(answer.structuredContent) !== JSON.stringify(nothing))
      this.#broken(
        "answers are for their agent",
        `${this.facts.name} was told more of ${command_id} than nothing`,
      );
  }

  async list(): Promise<void> {
    await this.#call("list_graph_sessions", { limit: 50 });
  }

  #readTicket(answer: ToolAnswer, key: string, ask: Ask, same: boolean): string | undefined {
    const { structuredContent: fields } = answer;
    const command = fields.command_id as string | undefined;
    if (!answer.isError && command !== undefined) {
      if (ask.command_id !== undefined && ask.command_id !== command && !this.#mixed.has(key))
        this.#broken("one key, one command", `${key} got ${ask.command_id}, then ${command}`);
      if (ask.command_id === command && !same)
        this.#broken("a key keeps its meaning", `${key} was used for another request and got the old ticket`);
      if (same) ask.command_id ??= command;
      return command;
    }
    if (fields.error_code === "key_conflict" && same && !this.#mixed.has(key) && !reachableNoMore(fields))
      this.#broken(
        "a key keeps its meaning",
        `${key} was refused for its own request: ${JSON.stringify(fields)}`,
      );
    return undefined;
  }

  #readCancel(command_id: string, fields: Record<string, unknown>): void {
    const facts = this.#witness.commands.get(command_id);
    if (facts === undefined) return;
    if (fields.cancel === "cancelled" && facts.run !== undefined)
      this.#broken("a cancel keeps its word", `${command_id} was answered cancelled, and had started`);
    if (fields.cancel === "cancelled" || fields.cancel === "cancelling")
      this.#witness.answered(facts, fields.cancel);
    if (fields.cancel === "already_finished" && ["queued", "running"].includes(String(fields.status)))
      this.#broken(
        "a cancel keeps its word",
        `${command_id} was answered already_finished while ${fields.status}`,
      );
  }

  /** One call over a network that may lose it, carry it late or twice, or lose the answer. */
  async #call(tool: ToolName, input: object): Promise<ToolAnswer | undefined> {
    const { scheduler, faults, history, server } = this.#world;
    const who = this.facts.name;
    const fault = faults.strike("call", who);
    history.add(who, `→ ${tool}`, fault ? { input, fault: fault.kind } : input);
    const struckOff = this.#isStruckOff();
    await scheduler.sleep(fault?.kind === "delayed" ? fault.dice.int(100, 60_000) : 5);
    if (fault?.kind === "lost") return this.#giveUp();
    const send = async (): Promise<ToolAnswer> => {
      try {
        return await server.callTool(this.auth, tool, input);
      } catch (error) {
        // What the Worker makes of an exception: an error that says to send the same call again.
        return { structuredContent: { error_code: "internal", error: String(error) }, isError: true };
      }
    };
    if (fault?.kind === "doubled") scheduler.after(fault.dice.int(0, 5_000), () => void send());
    const answer = await Promise.race([send(), this.#giveUp()]);
    if (answer === undefined || faults.strike("answer", who) !== undefined) {
      history.add(who, `✗ ${tool}`);
      return undefined;
    }
    this.#read(tool, answer);
    if (struckOff && !answer.isError && tool !== "list_graph_sessions" && this.#isStruckOff())
      this.#broken("access ends at once", `${who} was answered by ${tool} without access`);
    const again = ["internal", "unavailable"].includes(String(answer.structuredContent.error_code));
    if (!again) return answer;
    await scheduler.sleep(2_000);
    return undefined;
  }

  #read(tool: ToolName, answer: ToolAnswer): void {
    const text = JSON.stringify(answer);
    this.#world.history.add(
      this.facts.name,
      `← ${tool}`,
      text.length > 400 ? `${text.slice(0, 400)}…` : text,
    );
    for (const [mark, owner] of this.#marks)
      if (owner !== this.facts.name && text.includes(mark))
        this.#broken("answers are for their agent", `${this.facts.name} was shown ${mark} of ${owner}`);
    const command = answer.structuredContent.command_id;
    if (typeof command === "string" && !answer.isError)
      this.#witness.shown(command, answer.structuredContent);
  }

  /** No object lists this agent. */
  #isStruckOff(): boolean {
    for (const { database } of this.#world.server.objects.disks.values()) {
      const there = database.prepare("SELECT 1 FROM sqlite_master WHERE name = 'agents'").get();
      if (there && database.prepare("SELECT 1 FROM agents WHERE agent_id = ?").get(this.facts.id))
        return false;
    }
    return true;
  }

  async #giveUp(): Promise<undefined> {
    await this.#world.scheduler.sleep(PATIENCE_MS);
    return undefined;
  }
}

/** The key's run is in a project that the agent has lost: it is told so, and that is no refusal of the key. */
const reachableNoMore = (fields: Record<string, unknown>): boolean => fields.status === undefined;
