import { readdirSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { type Completion, completion } from "../../src/protocol/completion.ts";
import type { CommandState } from "../../src/protocol/states.ts";

/** What a relay's state file says of its runs. */
export interface RelayRecords {
  attempts: { command_id: string; state: "prepared" | "started" | "ended" }[];
  outbox: { command_id: string }[];
  dead_letters: { command_id: string; reason: string }[];
  history: HistoryRow[];
}
export interface HistoryRow {
  command_id: string;
  execution_id: string;
  status: string;
  result_json: string | null;
  error: string | null;
  finished_at: number | null;
}

/** What the project's object says of one run. */
export interface ServerRun {
  command_id: string;
  key: string;
  session_id: string;
  state: CommandState;
  attempt_id: string | null;
  cancel_requested_at: number | null;
  late: boolean;
  outcome: Completion | undefined;
}

/** Reads the state file as it is on the disk, whether a relay runs on it or not. */
export function relayRecords(path: string): RelayRecords {
  return reading(path, (all) => ({
    attempts: all("SELECT command_id, state FROM attempts ORDER BY n"),
    outbox: all("SELECT command_id FROM outbox ORDER BY n"),
    dead_letters: all("SELECT command_id, reason FROM dead_letters ORDER BY n"),
    history: all(
      "SELECT command_id, execution_id, status, result_json, error, finished_at FROM history ORDER BY n",
    ),
  }));
}

/** Reads every run of the endpoint's one project, whether the endpoint is up or not. */
export function serverRuns(endpointState: string): ServerRun[] {
  interface Row extends Omit<ServerRun, "late" | "outcome"> {
    late: number;
    outcome_json: string | null;
  }
  return reading(objectFile(endpointState), (all) =>
    all<Row>(
      `SELECT command_id, idempotency_key AS key, graph_session_id AS session_id, state, attempt_id, cancel_requested_at, late, outcome_json
         FROM commands JOIN payloads USING (seq) ORDER BY seq`,
    ).map(({ outcome_json, ...row }) => ({
      ...row,
      key: JSON.parse(row.key) as string,
      late: row.late === 1,
      outcome: outcome_json === null ? undefined : completion.parse(JSON.parse(outcome_json)),
    })),
  );
}

/** The sessions that D1 lists as shared. */
export function listedSessions(endpointState: string): string[] {
  return reading(databaseFile(endpointState, "d1/miniflare-D1DatabaseObject"), (all) =>
    all<{ id: string }>(
      "SELECT graph_session_id AS id FROM graph_sessions WHERE unshared_at IS NULL ORDER BY id",
    ).map(({ id }) => id),
  );
}

/** The projects whose object is not known to hold the newest list of who may use it. */
export function projectsBehind(endpointState: string): string[] {
  return reading(databaseFile(endpointState, "d1/miniflare-D1DatabaseObject"), (all) =>
    all<{ id: string }>("SELECT id FROM projects WHERE access_applied < access_version").map(({ id }) => id),
  );
}

/** The database of the endpoint's one object. */
export const objectFile = (endpointState: string): string =>
  databaseFile(endpointState, "do/graph-relay-ProjectQueue");

function databaseFile(endpointState: string, kind: string): string {
  const folder = join(endpointState, "databases/v3", kind);
  const [name, another] = readdirSync(folder).filter((file) => /^[0-9a-f]{64}\.sqlite$/.test(file));
  if (name === undefined || another !== undefined) throw new Error(`${folder} does not hold one database`);
  return join(folder, name);
}

function reading<T>(path: string, body: (all: <Row>(sql: string) => Row[]) => T): T {
  const db = new DatabaseSync(path, { readOnly: true, timeout: 5_000 });
  try {
    db.exec("BEGIN");
    return body(<Row>(sql: string) => db.prepare(sql).all() as Row[]);
  } finally {
    db.close();
  }
}
