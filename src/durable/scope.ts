import { and, eq, gt, isNull, or, type SQL, sql } from "drizzle-orm";
import type { DrizzleSqliteDODatabase } from "drizzle-orm/durable-sqlite";
import type { ProjectSettings } from "../protocol/limits.ts";
import type { CommandState } from "../protocol/states.ts";
import type { Effects } from "./effects.ts";
import type { Presences } from "./presence.ts";
import { agents, commands } from "./schema.ts";

export type Db = DrizzleSqliteDODatabase;
export type CommandRow = typeof commands.$inferSelect;

/** One call: the tables, the moment it happens at, and what it brings about. */
export interface Scope {
  readonly db: Db;
  readonly now: number;
  readonly settings: ProjectSettings;
  readonly presences: Presences;
  readonly effects: Effects;
}

/** Statements that are built once for each database: building one takes several times as long as running it. */
export function statements<T>(build: (db: Db) => T): (scope: { db: Db }) => T {
  const built = new WeakMap<Db, T>();
  return ({ db }) => {
    const known = built.get(db);
    if (known) return known;
    const fresh = build(db);
    built.set(db, fresh);
    return fresh;
  };
}

/** A value that is bound by this name when the statement is run. */
export const given = (name: string): SQL => sql`${sql.placeholder(name)}`;

/** The state spelled out, not bound: SQLite uses a partial index only for the literal it was made with. */
export const inState = (state: CommandState): SQL => sql`${commands.state} = ${sql.raw(`'${state}'`)}`;

/** The record is still kept at `now`. One past its time is gone for every caller, even before it is deleted. */
export const isKept = or(isNull(commands.kept_until), gt(commands.kept_until, given("now")));

/** The agent's own command, by `command_id` and `agent_id`. */
export const ofAgent = and(
  eq(commands.command_id, given("command_id")),
  eq(commands.agent_id, given("agent_id")),
  isKept,
);

/** The device's own command, by `command_id` and `device_id`. */
export const ofDevice = and(
  eq(commands.command_id, given("command_id")),
  eq(commands.device_id, given("device_id")),
  isKept,
);

/** The columns of a command that ends at `now` and is kept until `kept_until`. */
export const ENDS = { finished_at: given("now"), kept_until: given("kept_until") };

/** Until when a run that ends now is kept. */
export const keptUntil = ({ now, settings }: Scope): number => now + settings.retention_seconds * 1000;

/** Until when a run that gives a sign now is believed alive. */
export const leaseUntil = ({ now, settings }: Scope): number => now + settings.lease_seconds * 1000;

const listed = statements((db) =>
  db
    .select({ id: agents.agent_id })
    .from(agents)
    .where(eq(agents.agent_id, given("agent_id")))
    .prepare(),
);

/** Whether the agent is on the object's list. */
export const isAgent = (scope: Scope, agent_id: string): boolean =>
  listed(scope).get({ agent_id }) !== undefined;
