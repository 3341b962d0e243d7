import { and, eq, gt, isNull, or, type SQL, sql } from "drizzle-orm";
import type { DrizzleSqliteDODatabase } from "drizzle-orm/durable-sqlite";
import type { ProjectSettings } from "../protocol/limits.ts";
import type { CommandState } from "../protocol/states.ts";
import type { Presences } from "./presence.ts";
import { agents, commands } from "./schema.ts";

export type Db = DrizzleSqliteDODatabase;
export type CommandRow = typeof commands.$inferSelect;

/** Who is told what a call brought about, once it is committed. Must not throw. */
export interface QueueHost {
  /** The run ended, waits for its owner, or went out of its agent's sight: whoever waits for it looks again. */
  changed(command_id: string): void;
  /** There is something for this device: a new command, or a stop. */
  wake(device_id: string): void;
  /** Time changes something at this moment, in milliseconds since the epoch; an alarm must not come later. */
  due(at: number): void;
}

/** What a call brings about outside its tables, kept until the tables are committed. */
export class Effects implements QueueHost {
  readonly #changed = new Set<string>();
  readonly #wake = new Set<string>();
  #due = Number.POSITIVE_INFINITY;

  changed(command_id: string): void {
    this.#changed.add(command_id);
  }
  wake(device_id: string): void {
    this.#wake.add(device_id);
  }
  due(at: number): void {
    this.#due = Math.min(this.#due, at);
  }

  tell(host: QueueHost): void {
    if (this.#due !== Number.POSITIVE_INFINITY) host.due(this.#due);
    for (const id of this.#changed) host.changed(id);
    for (const id of this.#wake) host.wake(id);
  }
}

/** One call: the tables, the moment it happens at, and what it brings about. */
export interface Scope {
  readonly db: Db;
  readonly now: number;
  readonly settings: ProjectSettings;
  readonly presences: Presences;
  readonly effects: Effects;
}

/** The state spelled out, not bound: SQLite uses a partial index only for the literal it was made with. */
export const inState = (state: CommandState): SQL => sql`${commands.state} = ${sql.raw(`'${state}'`)}`;

/** The record is still kept. One past its time is gone for every caller, even before it is deleted. */
export const isKept = (now: number) => or(isNull(commands.kept_until), gt(commands.kept_until, now));

/** The columns of a command that ends now. */
export const ending = ({ now, settings }: Scope) => ({
  finished_at: now,
  kept_until: now + settings.retention_seconds * 1000,
});

export const leaseEnd = ({ now, settings }: Scope): number => now + settings.lease_seconds * 1000;

/** Whether the agent is on the object's list. */
export const isAgent = ({ db }: Scope, agent_id: string): boolean =>
  db.select({ id: agents.agent_id }).from(agents).where(eq(agents.agent_id, agent_id)).get() !== undefined;

/** The agent's own command. */
export const ofAgent = (scope: Scope, agent_id: string, command_id: string) =>
  and(eq(commands.command_id, command_id), eq(commands.agent_id, agent_id), isKept(scope.now));

/** The device's own command. */
export const ofDevice = (scope: Scope, device_id: string, command_id: string) =>
  and(eq(commands.command_id, command_id), eq(commands.device_id, device_id), isKept(scope.now));
