import { sql } from "drizzle-orm";
import { index, integer, primaryKey, sqliteTable, text, uniqueIndex } from "drizzle-orm/sqlite-core";
import type { CancelReason } from "../protocol/errors.ts";
import { COMMAND_STATES } from "../protocol/states.ts";

// Times are milliseconds of the server's clock. The predicates of partial indexes hold literals: SQLite uses
// such an index only where a query spells the same literal out (see `inState`).

/** The one row that says whose object this is and what its owner set. */
export const meta = sqliteTable("meta", {
  id: integer().primaryKey(),
  project_id: text().notNull(),
  access_version: integer().notNull(),
  /** JSON of `ProjectSettings`. */
  settings: text().notNull(),
});

export const agents = sqliteTable("agents", {
  agent_id: text().primaryKey(),
  name: text().notNull(),
});

export const devices = sqliteTable("devices", {
  device_id: text().primaryKey(),
  /** Digest of the set of sessions that D1 holds for it. */
  sessions_digest: text().notNull().default(""),
  /** When the newest token it showed was issued. */
  token_issued_at: integer().notNull().default(0),
  /** A lasting note that it was there, up to a token's life old. */
  last_seen_at: integer(),
});

/** One queued run. The row is small, because a running command's is written every few seconds. */
export const commands = sqliteTable(
  "commands",
  {
    /** The order in which runs were asked for. */
    seq: integer().primaryKey(),
    command_id: text().notNull(),
    agent_id: text().notNull(),
    /** As a JSON string: SQL text would make one of two keys that differ in a lone surrogate. */
    idempotency_key: text().notNull(),
    graph_session_id: text().notNull(),
    device_id: text().notNull(),
    slug: text().notNull(),
    state: text({ enum: COMMAND_STATES }).notNull(),
    /** The relay's try that started it. */
    attempt_id: text(),
    queued_at: integer().notNull(),
    /** When it is given up if it is still queued then. */
    expires_at: integer().notNull(),
    started_at: integer(),
    /** When it counts as lost if its relay gave no sign until then. */
    lease_until: integer(),
    finished_at: integer(),
    /** When the row is deleted; set while the command is ended. */
    kept_until: integer(),
    cancel_requested_at: integer(),
    progress_json: text(),
    reason: text().$type<CancelReason>(),
    late: integer({ mode: "boolean" }).notNull().default(false),
    finished_before_stop: integer({ mode: "boolean" }).notNull().default(false),
  },
  (t) => [
    uniqueIndex("commands_by_id").on(t.command_id),
    uniqueIndex("commands_by_key").on(t.agent_id, t.idempotency_key),
    // What a device is to get next, in order; with the agent, so that the caps are counted in the index alone.
    index("commands_queued").on(t.device_id, t.seq, t.agent_id).where(sql`state = 'queued'`),
    index("commands_expiring").on(t.expires_at).where(sql`state = 'queued'`),
    // Few at any time, so the lapsed leases are found by looking at all: renewing one writes no index.
    index("commands_running").on(t.agent_id).where(sql`state = 'running'`),
    index("commands_kept").on(t.kept_until).where(sql`kept_until is not null`),
  ],
);

/** A command's large texts, apart from its row. */
export const payloads = sqliteTable("payloads", {
  seq: integer()
    .primaryKey()
    .references(() => commands.seq),
  /** Canonical JSON. */
  arguments_json: text().notNull(),
  /** JSON of the `Completion` as its relay sent it. */
  outcome_json: text(),
});

/** The last completion that came for a command and did not become its outcome. */
export const keptOut = sqliteTable("kept_out", {
  seq: integer()
    .primaryKey()
    .references(() => commands.seq),
  /** How many were kept out so far. */
  times: integer().notNull(),
  last_at: integer().notNull(),
  attempt_id: text(),
  execution_id: text().notNull(),
  status: text().notNull(),
});

/** Keys whose run is, or is to be, in another project's object. */
export const keyClaims = sqliteTable(
  "key_claims",
  {
    agent_id: text().notNull(),
    /** As in `commands`. */
    idempotency_key: text().notNull(),
    graph_session_id: text().notNull(),
    command_id: text().notNull(),
    kept_until: integer().notNull(),
    claimed_at: integer().notNull().default(0),
    /** It is not its claimer's alone: another call was told of it, or it took the place of another claim. */
    adopted: integer({ mode: "boolean" }).notNull().default(false),
  },
  (t) => [
    primaryKey({ columns: [t.agent_id, t.idempotency_key] }),
    index("key_claims_kept").on(t.kept_until),
  ],
);
