import type { SessionMetadata } from "../../protocol/relay-api.ts";

// Statements are written out: each is one round trip, and docs/costs.md counts its rows.

/** A project that an agent is connected to. */
export interface ConnectedProject {
  project_id: string;
  name: string;
}

/** A session shared with a connected project, as its last sync told. */
export interface SharedSession {
  project_id: string;
  device_id: string;
  graph_session_id: string;
  name: string;
  description: string;
  slug: string;
  version: string;
  status: SessionMetadata["status"];
  /** JSON text. */
  arguments_schema: string | null;
}

/** The projects an agent may use: connected, not disabled, the agent itself not revoked. */
const USABLE = `
  JOIN agents a ON a.id = ap.agent_id AND a.revoked_at IS NULL
  JOIN projects p ON p.id = ap.project_id AND p.disabled_at IS NULL`;

// CROSS JOIN is SQLite's way to have the joins in this order: its planner would read all sessions there are.
const LIST = `
WITH connected AS MATERIALIZED (
  SELECT p.id, p.name, ap.connected_at FROM agent_projects ap ${USABLE}
  WHERE ap.agent_id = ?1 AND (?2 IS NULL OR ap.project_id = ?2)
)
SELECT id AS project_id, name AS project_name, NULL AS device_id, NULL AS graph_session_id, NULL AS name,
  NULL AS description, NULL AS slug, NULL AS version, NULL AS status, NULL AS arguments_schema
FROM connected
UNION ALL
SELECT * FROM (
  SELECT s.project_id, NULL, s.device_id, s.graph_session_id, s.name, s.description, s.slug, s.version,
    s.status, s.arguments_schema
  FROM connected c
  CROSS JOIN graph_sessions s ON s.project_id = c.id AND s.unshared_at IS NULL
  JOIN devices d ON d.id = s.device_id AND d.removed_at IS NULL
  ORDER BY c.connected_at, c.id, s.name, s.graph_session_id
  LIMIT ?3
)`;

/**
 * An agent's connected projects (or the one asked for, if it is among them) and at most `limit` of their
 * shared sessions, the earliest connected project's first, then by name.
 */
export async function listSessions(
  db: D1Database,
  agentId: string,
  projectId: string | undefined,
  limit: number,
): Promise<{ projects: ConnectedProject[]; sessions: SharedSession[] }> {
  type Row = SharedSession & { project_name: string | null };
  const { results } = await db
    .prepare(LIST)
    .bind(agentId, projectId ?? null, limit)
    .all<Row>();
  const projects = results.flatMap((r) =>
    r.project_name === null ? [] : [{ project_id: r.project_id, name: r.project_name }],
  );
  return { projects, sessions: results.filter((r) => r.project_name === null) };
}

/** Where a session is or was shared, among the projects of an agent's account. */
export interface SessionPlace {
  project_id: string;
  device_id: string;
  slug: string;
  /** JSON text. */
  arguments_schema: string | null;
  /** No two places of a session have the same; a later one has a later time. */
  first_shared_at: number;
  /** When the agent was connected to the project; null: it is not. */
  connected_at: number | null;
  /** Shared now, by a device that is still paired. */
  shared: boolean;
}

const PLACES = `
SELECT s.project_id, s.device_id, s.slug, s.arguments_schema, s.first_shared_at, ap.connected_at,
  s.unshared_at IS NULL AND d.removed_at IS NULL AS shared
FROM agents a
CROSS JOIN graph_sessions s ON s.graph_session_id = ?2
JOIN projects p ON p.id = s.project_id AND p.account_id = a.account_id AND p.disabled_at IS NULL
JOIN devices d ON d.id = s.device_id
LEFT JOIN agent_projects ap ON ap.project_id = s.project_id AND ap.agent_id = a.id
WHERE a.id = ?1 AND a.revoked_at IS NULL`;

/** Every place of a session in the agent's account, unshared traces and projects out of its reach included. */
export async function findSessionPlaces(
  db: D1Database,
  agentId: string,
  graphSessionId: string,
): Promise<SessionPlace[]> {
  const { results } = await db
    .prepare(PLACES)
    .bind(agentId, graphSessionId)
    .all<Omit<SessionPlace, "shared"> & { shared: number }>();
  return results.map((row) => ({ ...row, shared: row.shared === 1 }));
}

/** Whether the agent is connected to the project now: asked only when its token does not name the project. */
export async function isConnected(db: D1Database, agentId: string, projectId: string): Promise<boolean> {
  const row = await db
    .prepare(`SELECT 1 FROM agent_projects ap ${USABLE} WHERE ap.agent_id = ?1 AND ap.project_id = ?2`)
    .bind(agentId, projectId)
    .first();
  return row !== null;
}
