/** One numbered change of the state file. A released one is never edited; the next number mends it. */
export interface Migration {
  version: number;
  sql: string;
}

// Times are milliseconds of this machine's clock, for the owner's eyes. `n` gives rows their order: the
// clock may jump. JSON columns hold JSON text.
export const MIGRATIONS: readonly Migration[] = [
  {
    version: 1,
    sql: `
CREATE TABLE meta (
  key TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO meta (key, value) VALUES ('sharing_version', '0');

CREATE TABLE device (
  only_one INTEGER PRIMARY KEY CHECK (only_one = 1),
  device_id TEXT NOT NULL,
  account_name TEXT NOT NULL,
  server_url TEXT NOT NULL,
  name TEXT NOT NULL,
  private_jwk TEXT NOT NULL,
  paired_at INTEGER NOT NULL
) STRICT;

CREATE TABLE graphs (
  graph_session_id TEXT PRIMARY KEY,
  slug TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL,
  description TEXT NOT NULL,
  version TEXT NOT NULL,
  path TEXT NOT NULL,
  arguments_schema TEXT,
  added_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE projects (
  project_id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  enabled INTEGER NOT NULL DEFAULT 0,
  told_digest TEXT,
  problem TEXT
) STRICT, WITHOUT ROWID;

CREATE TABLE shares (
  project_id TEXT NOT NULL REFERENCES projects (project_id) ON DELETE CASCADE,
  graph_session_id TEXT NOT NULL REFERENCES graphs (graph_session_id) ON DELETE CASCADE,
  shared_at INTEGER NOT NULL,
  PRIMARY KEY (project_id, graph_session_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX shares_by_graph ON shares (graph_session_id);

CREATE TABLE attempts (
  n INTEGER PRIMARY KEY AUTOINCREMENT,
  command_id TEXT NOT NULL UNIQUE,
  attempt_id TEXT NOT NULL,
  execution_id TEXT NOT NULL,
  project_id TEXT NOT NULL,
  graph_session_id TEXT NOT NULL,
  slug TEXT NOT NULL,
  arguments_json TEXT NOT NULL,
  agent_name TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('prepared', 'started', 'ended')),
  reason TEXT
) STRICT;
CREATE INDEX attempts_open ON attempts (state, n) WHERE state <> 'ended';

CREATE TABLE outbox (
  n INTEGER PRIMARY KEY AUTOINCREMENT,
  command_id TEXT NOT NULL UNIQUE,
  project_id TEXT NOT NULL,
  attempt_id TEXT,
  completion TEXT NOT NULL,
  truncated INTEGER NOT NULL,
  last_failure TEXT
) STRICT;

CREATE TABLE dead_letters (
  n INTEGER PRIMARY KEY AUTOINCREMENT,
  command_id TEXT NOT NULL UNIQUE,
  project_id TEXT NOT NULL,
  attempt_id TEXT,
  completion TEXT NOT NULL,
  truncated INTEGER NOT NULL,
  last_failure TEXT,
  reason TEXT NOT NULL,
  buried_at INTEGER NOT NULL
) STRICT;

CREATE TABLE history (
  n INTEGER PRIMARY KEY AUTOINCREMENT,
  execution_id TEXT NOT NULL UNIQUE,
  channel TEXT NOT NULL,
  command_id TEXT,
  project_id TEXT,
  graph_session_id TEXT,
  slug TEXT NOT NULL,
  agent_name TEXT,
  arguments_json TEXT NOT NULL,
  status TEXT NOT NULL,
  result_json TEXT,
  error TEXT,
  total_tokens INTEGER,
  reported_cost REAL,
  finished_before_stop INTEGER NOT NULL DEFAULT 0,
  started_at INTEGER NOT NULL,
  finished_at INTEGER
) STRICT;

CREATE TABLE history_events (
  execution_id TEXT NOT NULL REFERENCES history (execution_id) ON DELETE CASCADE,
  n INTEGER NOT NULL,
  at INTEGER NOT NULL,
  event TEXT NOT NULL,
  PRIMARY KEY (execution_id, n)
) STRICT, WITHOUT ROWID;

CREATE TABLE graph_settings (
  graph_session_id TEXT PRIMARY KEY REFERENCES graphs (graph_session_id) ON DELETE CASCADE,
  settings TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE approvals (
  graph_session_id TEXT NOT NULL REFERENCES graphs (graph_session_id) ON DELETE CASCADE,
  tool TEXT NOT NULL,
  setting TEXT NOT NULL CHECK (setting IN ('allow', 'ask', 'deny')),
  PRIMARY KEY (graph_session_id, tool)
) STRICT, WITHOUT ROWID;

CREATE TABLE folder_grants (
  graph_session_id TEXT NOT NULL REFERENCES graphs (graph_session_id) ON DELETE CASCADE,
  path TEXT NOT NULL,
  write INTEGER NOT NULL,
  PRIMARY KEY (graph_session_id, path)
) STRICT, WITHOUT ROWID;

CREATE TABLE approval_requests (
  n INTEGER PRIMARY KEY AUTOINCREMENT,
  execution_id TEXT NOT NULL,
  run_id TEXT NOT NULL,
  graph TEXT NOT NULL,
  tool TEXT NOT NULL,
  request TEXT NOT NULL,
  asked_at INTEGER NOT NULL,
  answer TEXT,
  answered_by TEXT,
  closed INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX approval_requests_open ON approval_requests (n) WHERE closed = 0;

CREATE TABLE calls (
  fingerprint TEXT PRIMARY KEY,
  idempotency_key TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE agent_logins (
  server_url TEXT PRIMARY KEY,
  client TEXT,
  tokens TEXT
) STRICT, WITHOUT ROWID;
`,
  },
  {
    // A relay that was killed while it asked cannot withdraw its question: the time does. Folders keep the
    // order they were granted in, as relative paths are looked up in the first.
    version: 2,
    sql: `
ALTER TABLE approval_requests ADD COLUMN expires_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE folder_grants ADD COLUMN granted_at INTEGER NOT NULL DEFAULT 0;
CREATE INDEX history_ended ON history (finished_at) WHERE finished_at IS NOT NULL;
`,
  },
  {
    // Nobody should be asked to answer a question whose asker is gone.
    version: 3,
    sql: `
ALTER TABLE approval_requests ADD COLUMN alive_until INTEGER NOT NULL DEFAULT 0;
`,
  },
  {
    // A local run whose command was killed is found by its process being gone.
    version: 4,
    sql: `
ALTER TABLE history ADD COLUMN process_id INTEGER;
CREATE INDEX history_local ON history (process_id) WHERE process_id IS NOT NULL AND finished_at IS NULL;
`,
  },
];

/** The newest version this program knows. */
export const SCHEMA_VERSION = MIGRATIONS.length;
