import type { RunOutcome, RunRequest } from "../../../relay-cli/engine/contract.ts";
import { LIMITS } from "../../../src/protocol/limits.ts";
import type { CommandState } from "../../../src/protocol/states.ts";
import type { Break } from "./guarantees.ts";
import type { QueuedCommand } from "./states.ts";

/** A command as the world knows it, beside what the product says of it. */
export interface CommandFacts extends QueuedCommand {
  state: CommandState;
  /** Its place in the order of asking, over the whole world. */
  order: number;
  run?: RunFacts;
  /** Its agent was told that it is cancelled, or that it is being cancelled. */
  answered?: "cancelled" | "cancelling";
  answeredAt?: number;
}

/** One start of a Graph's program. */
interface RunFacts {
  laptop: string;
  session: string;
  request: RunRequest;
  /** What the program ended with, if its process lived to see it. */
  outcome?: RunOutcome;
  endedAt?: number;
  /** It was told to stop. */
  told?: true;
  /** Its relay died under it. */
  dead?: true;
}

/** What one laptop has been told, and what its owner has told it. */
export interface LaptopFacts {
  name: string;
  concurrency: number;
  /** Another machine goes by the same device: the two keep no order between them. */
  isCopied: boolean;
  /** `project session slug` of what is shared at this moment. */
  consent: ReadonlySet<string>;
  /** Commands that the server's answers have said no to. */
  refused: ReadonlySet<string>;
  /** Sessions whose Graph runs now. */
  running: Map<string, string>;
}

/** Longer than a relay can take for anything that it does at once, in milliseconds. */
const LONG = 60_000;

/** Everything that happened to commands, and the guarantees that can be judged at that moment. */
export class Witness {
  /** From this moment on nothing goes wrong, and everyone is there. */
  calmAt = Number.POSITIVE_INFINITY;
  readonly #now: () => number;
  readonly commands = new Map<string, CommandFacts>();
  /** The last command of each session in each project that was started. */
  readonly #lastStart = new Map<string, CommandFacts>();
  readonly #broken: Break;

  constructor(now: () => number, broken: Break) {
    this.#now = now;
    this.#broken = broken;
  }

  queued(command: QueuedCommand): void {
    this.commands.set(command.command_id, { ...command, state: "queued", order: this.commands.size });
  }

  moved(command_id: string, to: CommandState): void {
    const command = this.commands.get(command_id);
    if (command === undefined) return;
    command.state = to;
    if (to === "lost" && this.#now() > this.calmAt + LONG && this.#isAlive(command))
      this.#broken("a live run is not given up", `${command_id} was taken for lost`);
    if (command.answered === "cancelling" && (to === "completed" || to === "failed"))
      this.#broken("a cancel keeps its word", `${command_id} was being cancelled and became ${to}`);
  }

  /** A relay has its engine run a Graph. */
  started(laptop: LaptopFacts, session: string, request: RunRequest): void {
    const id = request.channel.replace(/^graph:external:/, "");
    const command = this.commands.get(id);
    if (command === undefined) {
      this.#broken("started at most once", `${id} was never queued`);
      return;
    }
    if (command.run)
      this.#broken("started at most once", `${id} ran on ${command.run.laptop}, then on ${laptop.name}`);
    command.run ??= { laptop: laptop.name, session, request };
    if (!laptop.consent.has(`${command.project_id} ${session} ${command.slug}`))
      this.#broken("no start after a no", `${id} started on ${laptop.name} without consent`);
    if (laptop.refused.has(id))
      this.#broken("no start after a no", `${id} started on ${laptop.name}, which had been told not to`);
    if (command.answered === "cancelled")
      this.#broken("a cancel keeps its word", `${id} was cancelled, and started on ${laptop.name}`);
    if (!laptop.isCopied) this.#checkOrder(command, `${command.project_id} ${session}`);
    this.#checkRoom(laptop, session, id);
  }

  /** The relay that started it is there to see its end. */
  finished(laptop: LaptopFacts, session: string, request: RunRequest, outcome: RunOutcome): void {
    laptop.running.delete(session);
    const command = this.commands.get(request.channel.replace(/^graph:external:/, ""));
    const run = command?.run;
    if (run?.request.execution_id !== request.execution_id) return;
    run.outcome = outcome;
    run.endedAt = this.#now();
    const since = Math.max(command?.answeredAt ?? Number.POSITIVE_INFINITY, this.calmAt);
    if (command?.answered === "cancelling" && !run.told && run.endedAt > since + LONG)
      this.#broken("a cancel keeps its word", `${command.command_id} was never told to stop`);
  }

  /** The engine was asked to stop a run. */
  told(request: RunRequest): void {
    const command = this.commands.get(request.channel.replace(/^graph:external:/, ""));
    if (command?.run) command.run.told = true;
  }

  /** An agent was answered that its run is cancelled, or is being cancelled. */
  answered(command: CommandFacts, answer: "cancelled" | "cancelling"): void {
    command.answered = answer;
    command.answeredAt ??= this.#now();
  }

  /** The relay that ran these commands was killed. */
  died(commands: Iterable<string>): void {
    for (const id of commands) {
      const run = this.commands.get(id)?.run;
      if (run) run.dead = true;
    }
  }

  #isAlive(command: CommandFacts): boolean {
    return command.run !== undefined && command.run.outcome === undefined && !command.run.dead;
  }

  /** The agent of a command was shown this as its result. */
  shown(command_id: string, answer: Record<string, unknown>): void {
    const command = this.commands.get(command_id);
    const outcome = command?.run?.outcome;
    if (answer.status !== "completed") return;
    if (outcome?.status !== "completed" || outcome.result_json === undefined) {
      this.#broken("an answer is true", `${command_id} is shown as completed, and its Graph never was`);
      return;
    }
    const full = {
      execution_id: command?.run?.request.execution_id ?? "",
      status: outcome.status,
      result: JSON.parse(outcome.result_json) as unknown,
      total_tokens: outcome.total_tokens,
      reported_cost: outcome.reported_cost,
    };
    const fits = JSON.stringify(full).length <= LIMITS.completionCharacters;
    const same = JSON.stringify(answer.result) === JSON.stringify(fits ? full.result : undefined);
    if (!same || answer.result_truncated !== (fits ? undefined : true))
      this.#broken("an answer is true", `${command_id} is shown with another result than its Graph's`);
  }

  #checkOrder(command: CommandFacts, session: string): void {
    const last = this.#lastStart.get(session);
    if (last !== undefined && last.order > command.order)
      this.#broken("queue order in a session", `${command.command_id} started after ${last.command_id}`);
    if (last === undefined || last.order < command.order) this.#lastStart.set(session, command);
  }

  #checkRoom(laptop: LaptopFacts, session: string, id: string): void {
    const beside = laptop.running.get(session);
    if (beside !== undefined)
      this.#broken("one run of a session at a time", `${id} started while ${beside} of the same session ran`);
    laptop.running.set(session, id);
    if (laptop.running.size > laptop.concurrency)
      this.#broken("one run of a session at a time", `${laptop.running.size} Graphs run on ${laptop.name}`);
  }
}
