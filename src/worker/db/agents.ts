import { and, asc, eq, gt, inArray, isNull, lt, notInArray, sql } from "drizzle-orm";
import { audit } from "./audit.ts";
import type { Database, Statement } from "./client.ts";
import { won } from "./client.ts";
import { accountAccessBump, type ProjectRow } from "./projects.ts";
import { agentProjects, agents, oauthStore, projects, refreshAnswers } from "./schema.ts";

export interface Connection {
  accountId: string;
  clientId: string;
  /** For a client that is not connected yet. */
  newAgentId: string;
  name: string;
  scopes: string;
  redirectHost: string;
  projectIds: readonly string[];
  now: number;
}

/**
 * Connects a client to projects, as one. The same client is the same agent, revoked in between or not; a
 * project that stays connected keeps its `connected_at`. The answer is the agent's id.
 */
export async function connectAgent(db: Database, connection: Connection): Promise<string> {
  const { accountId, clientId, now } = connection;
  const [agent] = await db
    .insert(agents)
    .values({
      id: connection.newAgentId,
      account_id: accountId,
      client_id: clientId,
      name: connection.name,
      scopes: connection.scopes,
      redirect_host: connection.redirectHost,
      created_at: now,
    })
    .onConflictDoUpdate({
      target: [agents.account_id, agents.client_id],
      set: {
        name: connection.name,
        scopes: connection.scopes,
        redirect_host: connection.redirectHost,
        revoked_at: null,
      },
    })
    .returning({ id: agents.id });
  if (!agent) throw new Error("the agent's row was not returned");
  const chosen = [...connection.projectIds];
  await db.batch([
    db
      .delete(agentProjects)
      .where(and(eq(agentProjects.agent_id, agent.id), notInArray(agentProjects.project_id, chosen))),
    // Only the account's own projects: a foreign id selects nothing.
    db
      .insert(agentProjects)
      .select(
        db
          .select({
            agent_id: sql<string>`${agent.id}`.as("agent_id"),
            project_id: projects.id,
            connected_at: sql<number>`${now}`.as("connected_at"),
          })
          .from(projects)
          .where(and(eq(projects.account_id, accountId), inArray(projects.id, chosen))),
      )
      .onConflictDoNothing(),
    accountAccessBump(db, accountId),
    audit(db, accountId, now, "agent_allowed", {
      name: connection.name,
      host: connection.redirectHost,
      projects: chosen.length,
      scopes: connection.scopes,
    }),
  ]);
  return agent.id;
}

/** The projects an agent is connected to, the earliest first. */
export async function agentProjectIds(db: Database, agentId: string): Promise<string[]> {
  const rows = await db
    .select({ id: agentProjects.project_id })
    .from(agentProjects)
    .where(eq(agentProjects.agent_id, agentId))
    .orderBy(asc(agentProjects.connected_at), asc(agentProjects.project_id));
  return rows.map((row) => row.id);
}

/** The projects that a client of this account is connected to. */
export async function connectedProjectIds(
  db: Database,
  accountId: string,
  clientId: string,
): Promise<string[]> {
  const rows = await db
    .select({ id: agentProjects.project_id })
    .from(agents)
    .innerJoin(agentProjects, eq(agentProjects.agent_id, agents.id))
    .where(and(eq(agents.account_id, accountId), eq(agents.client_id, clientId)));
  return rows.map((row) => row.id);
}

/** Notes that the agent got a new token. False: it is revoked. */
export const touchAgent = async (db: Database, agentId: string, now: number) =>
  won(
    await db
      .update(agents)
      .set({ last_used_at: now })
      .where(and(eq(agents.id, agentId), isNull(agents.revoked_at))),
  );

/** An agent of this account that is not revoked. */
export async function agentOfAccount(db: Database, accountId: string, agentId: string) {
  const [agent] = await db
    .select()
    .from(agents)
    .where(and(eq(agents.id, agentId), eq(agents.account_id, accountId), isNull(agents.revoked_at)));
  return agent;
}

/** The statements that end an agent: its projects, its grants, tokens and refresh answers. Part of one batch. */
export function agentRevocation(
  db: Database,
  agent: { id: string; account_id: string; client_id: string },
  now: number,
): [Statement, ...Statement[]] {
  return [
    db.update(agents).set({ revoked_at: now }).where(eq(agents.id, agent.id)),
    db.delete(agentProjects).where(eq(agentProjects.agent_id, agent.id)),
    accountAccessBump(db, agent.account_id),
    ...grantDeletions(db, agent.account_id, agent.client_id),
  ];
}

/** The statements that take one project from an agent. */
export const agentDisconnection = (
  db: Database,
  agent: { id: string; account_id: string },
  projectId: string,
): [Statement, ...Statement[]] => [
  db
    .delete(agentProjects)
    .where(and(eq(agentProjects.agent_id, agent.id), eq(agentProjects.project_id, projectId))),
  accountAccessBump(db, agent.account_id),
];

/** The statements that end every grant of a client for an account, with its tokens and refresh answers. */
function grantDeletions(db: Database, accountId: string, clientId: string): Statement[] {
  const ofAccount = (kind: string) =>
    and(gt(oauthStore.key, `${kind}:${accountId}:`), lt(oauthStore.key, `${kind}:${accountId};`));
  const clientAt = (path: string) => sql`json_extract(${oauthStore.value}, ${path}) = ${clientId}`;
  return [
    db.delete(oauthStore).where(and(ofAccount("token"), clientAt("$.grant.clientId"))),
    db.delete(oauthStore).where(and(ofAccount("grant"), clientAt("$.clientId"))),
    db
      .delete(refreshAnswers)
      .where(and(eq(refreshAnswers.account_id, accountId), eq(refreshAnswers.client_id, clientId))),
  ];
}

export interface ConnectedAgent {
  id: string;
  name: string;
  scopes: string;
  redirect_host: string;
  last_used_at: number | null;
  /** Its projects, the earliest connected first. */
  projects: ProjectRow[];
}

/** An account's agents that are not revoked, oldest first, with their projects. */
export async function connectedAgents(db: Database, accountId: string): Promise<ConnectedAgent[]> {
  const rows = await db
    .select({
      id: agents.id,
      name: agents.name,
      scopes: agents.scopes,
      redirect_host: agents.redirect_host,
      last_used_at: agents.last_used_at,
      project_id: projects.id,
      project_name: projects.name,
    })
    .from(agents)
    .leftJoin(agentProjects, eq(agentProjects.agent_id, agents.id))
    .leftJoin(projects, eq(projects.id, agentProjects.project_id))
    .where(and(eq(agents.account_id, accountId), isNull(agents.revoked_at)))
    .orderBy(asc(agents.created_at), asc(agents.id), asc(agentProjects.connected_at));
  const found = new Map<string, ConnectedAgent>();
  for (const { project_id, project_name, ...agent } of rows) {
    const entry = found.get(agent.id) ?? { ...agent, projects: [] };
    if (project_id !== null && project_name !== null)
      entry.projects.push({ id: project_id, name: project_name });
    found.set(agent.id, entry);
  }
  return [...found.values()];
}

/** The names of an account's agents, revoked ones included, by id. */
export async function allAgentNames(db: Database, accountId: string): Promise<Map<string, string>> {
  const rows = await db
    .select({ id: agents.id, name: agents.name })
    .from(agents)
    .where(eq(agents.account_id, accountId));
  return new Map(rows.map((row) => [row.id, row.name]));
}
