import { eq, inArray } from "drizzle-orm";
import { systemClock } from "../protocol/ports.ts";
import { type Database, database } from "./db/client.ts";
import {
  accounts,
  agentProjects,
  agents,
  auditEvents,
  devices,
  graphSessions,
  identities,
  oneTimeCodes,
  passkeys,
  projects,
  webSessions,
} from "./db/schema.ts";
import type { Env } from "./env.ts";

/** Runs fetched from an object at a time: with a completion and arguments at their limits, four megabytes. */
const RUNS_PER_PAGE = 20;

/**
 * Everything held of an account, as JSON in pieces: an account may hold more than fits in memory. Hashes of
 * codes, cookies and tokens are left out: they are keys to nothing and say nothing.
 */
export async function* exportAccount(env: Env, accountId: string): AsyncGenerator<string> {
  const db = database(env.DB);
  const tables = await accountTables(db, accountId);
  yield `{"exported_at":${JSON.stringify(new Date(systemClock.now()).toISOString())}`;
  for (const [name, value] of Object.entries(tables))
    yield `,${JSON.stringify(name)}:${JSON.stringify(value)}`;
  yield ',"runs":{';
  let separator = "";
  for (const { id } of tables.projects) {
    yield `${separator}${JSON.stringify(id)}:[`;
    yield* projectRuns(env, id);
    yield "]";
    separator = ",";
  }
  yield "}}\n";
}

async function accountTables(db: Database, accountId: string) {
  const ofAccount = db.select({ id: projects.id }).from(projects).where(eq(projects.account_id, accountId));
  const [
    account,
    ownProjects,
    ownDevices,
    ownAgents,
    connections,
    sessions,
    keys,
    people,
    entries,
    codes,
    browsers,
  ] = await db.batch([
    db.select().from(accounts).where(eq(accounts.id, accountId)),
    db.select().from(projects).where(eq(projects.account_id, accountId)),
    db.select().from(devices).where(eq(devices.account_id, accountId)),
    db.select().from(agents).where(eq(agents.account_id, accountId)),
    db.select().from(agentProjects).where(inArray(agentProjects.project_id, ofAccount)),
    db.select().from(graphSessions).where(inArray(graphSessions.project_id, ofAccount)),
    db.select().from(passkeys).where(eq(passkeys.account_id, accountId)),
    db.select().from(identities).where(eq(identities.account_id, accountId)),
    db.select().from(auditEvents).where(eq(auditEvents.account_id, accountId)),
    db
      .select({
        purpose: oneTimeCodes.purpose,
        expires_at: oneTimeCodes.expires_at,
        used_at: oneTimeCodes.used_at,
      })
      .from(oneTimeCodes)
      .where(eq(oneTimeCodes.account_id, accountId)),
    db
      .select({ created_at: webSessions.created_at, expires_at: webSessions.expires_at })
      .from(webSessions)
      .where(eq(webSessions.account_id, accountId)),
  ]);
  return {
    account: account[0] ?? null,
    projects: ownProjects,
    devices: ownDevices,
    agents: ownAgents,
    agent_projects: connections,
    graph_sessions: sessions,
    passkeys: keys,
    identities: people,
    audit_events: entries,
    one_time_codes: codes,
    web_sessions: browsers,
  };
}

async function* projectRuns(env: Env, projectId: string): AsyncGenerator<string> {
  let before: number | null = null;
  let separator = "";
  for (;;) {
    const runs = await env.PROJECT_QUEUE.getByName(projectId).listRuns({
      before,
      limit: RUNS_PER_PAGE,
      whole: true,
    });
    for (const run of runs) {
      yield separator + JSON.stringify(run);
      separator = ",";
    }
    before = runs.at(-1)?.seq ?? null;
    if (runs.length < RUNS_PER_PAGE || before === null) return;
  }
}
