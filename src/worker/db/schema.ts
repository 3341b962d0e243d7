import { sql } from "drizzle-orm";
import { index, integer, primaryKey, sqliteTable, text, uniqueIndex } from "drizzle-orm/sqlite-core";

// D1 enforces foreign keys always. None cascades: on D1 a table rebuilt by a migration would take its
// children's rows along; children are deleted in the same batch as their parent. Times are milliseconds.

export const accounts = sqliteTable(
  "accounts",
  {
    id: text().primaryKey(),
    name: text().notNull(),
    created_at: integer().notNull(),
    /** Since when the account is being deleted; the row goes last. */
    deleted_at: integer(),
  },
  (t) => [index("accounts_leaving").on(t.id).where(sql`deleted_at is not null`)],
);

export const projects = sqliteTable(
  "projects",
  {
    id: text().primaryKey(),
    account_id: text()
      .notNull()
      .references(() => accounts.id),
    name: text().notNull(),
    /** JSON of `ProjectSettings`. */
    settings: text().notNull(),
    /** Grows with each change of who may use the project. */
    access_version: integer().notNull().default(1),
    /** The version that the project's object is known to hold. */
    access_applied: integer().notNull().default(0),
    created_at: integer().notNull(),
    /** Since when the project is being deleted; the row goes last. */
    disabled_at: integer(),
  },
  (t) => [
    index("projects_by_account").on(t.account_id, t.created_at),
    index("projects_leaving").on(t.id).where(sql`disabled_at is not null`),
    /** The few whose object is to be told, for the sweep. */
    index("projects_behind").on(t.id).where(sql`access_applied < access_version`),
  ],
);

export const devices = sqliteTable(
  "devices",
  {
    id: text().primaryKey(),
    account_id: text()
      .notNull()
      .references(() => accounts.id),
    name: text().notNull(),
    platform: text().notNull(),
    client_version: text().notNull(),
    /** JSON of a `PublicJwk`. */
    public_jwk: text().notNull(),
    /** RFC 7638 thumbprint of the key: the `kid` of its assertions, shown to the owner. */
    thumbprint: text().notNull(),
    created_at: integer().notNull(),
    last_seen_at: integer(),
    removed_at: integer(),
    /** JSON: by project id, the version of the set of sessions that `graph_sessions` holds of the device. */
    set_versions: text().notNull().default("{}"),
  },
  (t) => [
    uniqueIndex("devices_by_thumbprint").on(t.thumbprint),
    index("devices_by_account").on(t.account_id),
  ],
);

/** A connected agent: one client of one account, however often it signs in. */
export const agents = sqliteTable(
  "agents",
  {
    id: text().primaryKey(),
    account_id: text()
      .notNull()
      .references(() => accounts.id),
    client_id: text().notNull(),
    name: text().notNull(),
    /** The scopes of the newest consent, separated by spaces. */
    scopes: text().notNull(),
    /** The host that the newest consent sent its answer to. */
    redirect_host: text().notNull(),
    created_at: integer().notNull(),
    last_used_at: integer(),
    revoked_at: integer(),
  },
  (t) => [uniqueIndex("agents_by_client").on(t.account_id, t.client_id)],
);

export const agentProjects = sqliteTable(
  "agent_projects",
  {
    agent_id: text()
      .notNull()
      .references(() => agents.id),
    project_id: text()
      .notNull()
      .references(() => projects.id),
    connected_at: integer().notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.agent_id, t.project_id] }),
    index("agent_projects_by_project").on(t.project_id),
  ],
);

/** What the last sync of a device told of its shared sessions; an unshared one stays as a trace. */
export const graphSessions = sqliteTable(
  "graph_sessions",
  {
    project_id: text()
      .notNull()
      .references(() => projects.id),
    graph_session_id: text().notNull(),
    device_id: text()
      .notNull()
      .references(() => devices.id),
    name: text().notNull(),
    description: text().notNull(),
    slug: text().notNull(),
    version: text().notNull(),
    status: text().notNull(),
    arguments_schema: text(),
    first_shared_at: integer().notNull(),
    unshared_at: integer(),
  },
  (t) => [
    primaryKey({ columns: [t.project_id, t.graph_session_id] }),
    index("graph_sessions_by_session").on(t.graph_session_id),
    index("graph_sessions_by_device").on(t.device_id),
  ],
);

/** One-time links and codes, by the SHA-256 of their secret: an owner's sign-in, a device's enrolment. */
export const oneTimeCodes = sqliteTable(
  "one_time_codes",
  {
    code_hash: text().primaryKey(),
    purpose: text({ enum: ["sign_in", "enrol_device"] }).notNull(),
    account_id: text()
      .notNull()
      .references(() => accounts.id),
    expires_at: integer().notNull(),
    used_at: integer(),
  },
  (t) => [
    index("one_time_codes_by_expiry").on(t.expires_at),
    index("one_time_codes_by_account").on(t.account_id),
  ],
);

/** An owner's signed-in browser, by the SHA-256 of its cookie. */
export const webSessions = sqliteTable(
  "web_sessions",
  {
    session_hash: text().primaryKey(),
    account_id: text()
      .notNull()
      .references(() => accounts.id),
    created_at: integer().notNull(),
    /** When the owner last proved who they are. */
    authenticated_at: integer().notNull(),
    expires_at: integer().notNull(),
  },
  (t) => [
    index("web_sessions_by_expiry").on(t.expires_at),
    index("web_sessions_by_account").on(t.account_id),
  ],
);

/** Assertions already accepted from a device, until they would have expired anyway. */
export const usedAssertions = sqliteTable(
  "used_assertions",
  {
    device_id: text().notNull(),
    jti: text().notNull(),
    expires_at: integer().notNull(),
  },
  (t) => [primaryKey({ columns: [t.device_id, t.jti] }), index("used_assertions_by_expiry").on(t.expires_at)],
);

/** The key-value store that the OAuth library expects, strongly consistent. */
export const oauthStore = sqliteTable(
  "oauth_store",
  {
    key: text().primaryKey(),
    value: text().notNull(),
    metadata: text(),
    expires_at: integer(),
  },
  (t) => [index("oauth_store_by_expiry").on(t.expires_at)],
);

/** The answer to each refresh, sealed with a key made from the refresh token itself, so that a repeat gets the same. */
export const refreshAnswers = sqliteTable(
  "refresh_answers",
  {
    token_hash: text().primaryKey(),
    account_id: text()
      .notNull()
      .references(() => accounts.id),
    grant_id: text().notNull(),
    client_id: text().notNull(),
    /** Null while the refresh runs; empty once the grace is over. */
    sealed_answer: text(),
    repeats: integer().notNull().default(0),
    created_at: integer().notNull(),
  },
  (t) => [
    index("refresh_answers_by_age").on(t.created_at),
    index("refresh_answers_by_client").on(t.account_id, t.client_id),
  ],
);

/** An owner's passkeys. Public keys only. */
export const passkeys = sqliteTable(
  "passkeys",
  {
    /** As the authenticator names it, base64url. */
    credential_id: text().primaryKey(),
    account_id: text()
      .notNull()
      .references(() => accounts.id),
    name: text().notNull(),
    /** COSE key, base64url. */
    public_key: text().notNull(),
    counter: integer().notNull(),
    /** JSON array of hints for browsers. */
    transports: text().notNull(),
    created_at: integer().notNull(),
    last_used_at: integer(),
  },
  (t) => [index("passkeys_by_account").on(t.account_id)],
);

/** Who an owner is at the operator's identity provider. */
export const identities = sqliteTable(
  "identities",
  {
    issuer: text().notNull(),
    subject: text().notNull(),
    account_id: text()
      .notNull()
      .references(() => accounts.id),
    created_at: integer().notNull(),
  },
  (t) => [primaryKey({ columns: [t.issuer, t.subject] }), index("identities_by_account").on(t.account_id)],
);

/** A sign-in that a browser has begun: a passkey's challenge, a provider's `state`. Used once, by that browser. */
export const webChallenges = sqliteTable(
  "web_challenges",
  {
    challenge_hash: text().primaryKey(),
    kind: text({ enum: ["passkey_sign_in", "passkey_add", "sign_up", "provider"] }).notNull(),
    /** Hash of what the browser's forms carry. */
    browser_hash: text().notNull(),
    account_id: text().references(() => accounts.id),
    /** JSON of what the next step needs. */
    value: text().notNull(),
    expires_at: integer().notNull(),
  },
  (t) => [
    index("web_challenges_by_expiry").on(t.expires_at),
    index("web_challenges_by_account").on(t.account_id),
  ],
);

/** Invitations to sign up, by the SHA-256 of their code. */
export const invitations = sqliteTable(
  "invitations",
  {
    code_hash: text().primaryKey(),
    expires_at: integer().notNull(),
    used_at: integer(),
  },
  (t) => [index("invitations_by_expiry").on(t.expires_at)],
);

/** What was allowed, refused, revoked and changed in an account, for its owner. */
export const auditEvents = sqliteTable(
  "audit_events",
  {
    id: integer().primaryKey(),
    account_id: text()
      .notNull()
      .references(() => accounts.id),
    at: integer().notNull(),
    action: text().notNull(),
    /** JSON of an `AuditDetail`. */
    detail: text().notNull(),
  },
  (t) => [index("audit_events_by_account").on(t.account_id, t.id), index("audit_events_by_age").on(t.at)],
);
