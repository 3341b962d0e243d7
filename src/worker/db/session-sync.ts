import { canonicalJson, type Json } from "../../protocol/json.ts";
import type { SessionMetadata } from "../../protocol/relay-api.ts";

/** The set as it was sent, a row a session. */
const SENT = `
sent AS (
  SELECT value ->> 'graph_session_id' AS graph_session_id, value ->> 'name' AS name,
    value ->> 'description' AS description, value ->> 'slug' AS slug, value ->> 'version' AS version,
    value ->> 'status' AS status, value -> 'arguments_schema' AS arguments_schema
  FROM json_each(?3)
)`;

/** Sessions of the set that belong to another paired device. A removed device's are free to be shared anew. */
const FOREIGN = `
foreign_rows AS (
  SELECT g.graph_session_id FROM sent
  JOIN graph_sessions g ON g.project_id = ?1 AND g.graph_session_id = sent.graph_session_id
  JOIN devices d ON d.id = g.device_id
  WHERE g.device_id <> ?2 AND d.removed_at IS NULL
)`;

const FIND_FOREIGN = `WITH ${SENT}, ${FOREIGN} SELECT graph_session_id FROM foreign_rows`;

const COLUMNS = ["device_id", "name", "description", "slug", "version", "status", "arguments_schema"];

const VERSION = "json_extract(set_versions, '$.' || ?1)";

/** A set that was overtaken by a later one is left out. */
const TAKE_VERSION = `
UPDATE devices SET set_versions = json_set(set_versions, '$.' || ?1, ?3)
WHERE id = ?2 AND coalesce(${VERSION}, 0) < ?3`;

const IS_LATEST = `(SELECT ${VERSION} FROM devices WHERE id = ?2) = ?5`;

/** Later than the session's other first times, whatever the clocks of two Workers say: keys are kept by that order. */
const FIRST_SHARED = `max(?4, coalesce((
  SELECT max(g.first_shared_at) + 1 FROM graph_sessions g WHERE g.graph_session_id = sent.graph_session_id
), 0))`;

const UPSERT = `
WITH ${SENT}, ${FOREIGN}
INSERT INTO graph_sessions (project_id, graph_session_id, ${COLUMNS.join(", ")}, first_shared_at)
SELECT ?1, graph_session_id, ?2, name, description, slug, version, status, arguments_schema, ${FIRST_SHARED}
FROM sent WHERE NOT EXISTS (SELECT 1 FROM foreign_rows) AND ${IS_LATEST}
ON CONFLICT (project_id, graph_session_id) DO UPDATE SET
  ${COLUMNS.map((c) => `${c} = excluded.${c}`).join(", ")}, unshared_at = NULL
WHERE graph_sessions.unshared_at IS NOT NULL
  OR ${COLUMNS.map((c) => `graph_sessions.${c} IS NOT excluded.${c}`).join(" OR ")}`;

const UNSHARE_MISSING = `
WITH ${SENT}, ${FOREIGN}
UPDATE graph_sessions SET unshared_at = ?4
WHERE device_id = ?2 AND project_id = ?1 AND unshared_at IS NULL
  AND graph_session_id NOT IN (SELECT graph_session_id FROM sent)
  AND NOT EXISTS (SELECT 1 FROM foreign_rows) AND ${IS_LATEST}`;

/**
 * How long a trace of an unshared session stays, in milliseconds: longer than any key of its runs lives (at most
 * 7 days queued, 90 kept as lost, 90 more after a late result, and what remains for the run itself).
 */
const TRACE_KEPT = 400 * 24 * 60 * 60 * 1000;

/** A trace also stays while another place of its session may need it: keys are kept at the first. */
const DELETE_OLD_TRACES = `
DELETE FROM graph_sessions WHERE project_id = ?1 AND unshared_at < ?2 AND NOT EXISTS (
  SELECT 1 FROM graph_sessions o
  WHERE o.graph_session_id = graph_sessions.graph_session_id AND (o.unshared_at IS NULL OR o.unshared_at >= ?2))`;

/** What became of a set: stored whole, or left out whole because of these sessions, or of a later set if there are none. */
export type StoreAnswer = { stored: true } | { stored: false; foreign: string[] };

/**
 * Makes what D1 holds of a device's sessions in a project the set that was sent: rows that are as sent are
 * not written, new and changed ones are, missing ones become traces with the time they were unshared (until
 * no key can name a run of theirs), and reshared ones keep the time they were first shared. All or nothing,
 * in one round trip, and only if no set of a higher `set_version` was stored before. `now` is the server's
 * time in milliseconds.
 */
export async function storeSessions(
  db: D1Database,
  set: {
    project_id: string;
    device_id: string;
    sessions: readonly SessionMetadata[];
    set_version: number;
    now: number;
  },
): Promise<StoreAnswer> {
  const sent = canonicalJson(set.sessions as unknown as Json);
  const run = (sql: string, ...more: number[]) =>
    db.prepare(sql).bind(set.project_id, set.device_id, sent, ...more);
  const [foreign, version] = await db.batch<{ graph_session_id: string }>([
    run(FIND_FOREIGN),
    db.prepare(TAKE_VERSION).bind(set.project_id, set.device_id, set.set_version),
    run(UPSERT, set.now, set.set_version),
    run(UNSHARE_MISSING, set.now, set.set_version),
    db.prepare(DELETE_OLD_TRACES).bind(set.project_id, set.now - TRACE_KEPT),
  ]);
  const ids = (foreign?.results ?? []).map((row) => row.graph_session_id);
  const isLatest = version?.meta.changes === 1;
  return ids.length === 0 && isLatest ? { stored: true } : { stored: false, foreign: ids };
}
