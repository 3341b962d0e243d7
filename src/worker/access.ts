import { and, eq, isNull } from "drizzle-orm";
import type { ProjectAccess } from "../durable/contract.ts";
import { projectSettings } from "../protocol/limits.ts";
import { type Database, database } from "./db/client.ts";
import { projectStands, projectsBehind, projectsOfAccount, recordApplied } from "./db/projects.ts";
import { agentProjects, agents, devices, projects } from "./db/schema.ts";
import type { Env } from "./env.ts";
import { logFailure } from "./log.ts";

const DELIVERIES_PER_SWEEP = 200;
const DELIVERIES_AT_ONCE = 6;

/** Who may use a project, read as one: the version and the lists belong together. */
async function accessOf(db: Database, projectId: string): Promise<ProjectAccess | undefined> {
  const [[project], agentRows, deviceRows] = await db.batch([
    db
      .select()
      .from(projects)
      .where(and(eq(projects.id, projectId), isNull(projects.disabled_at))),
    db
      .select({ agent_id: agents.id, name: agents.name })
      .from(agentProjects)
      .innerJoin(agents, eq(agents.id, agentProjects.agent_id))
      .where(and(eq(agentProjects.project_id, projectId), isNull(agents.revoked_at))),
    db
      .select({ device_id: devices.id })
      .from(projects)
      .innerJoin(devices, eq(devices.account_id, projects.account_id))
      .where(and(eq(projects.id, projectId), isNull(devices.removed_at))),
  ]);
  if (!project) return undefined;
  return {
    project_id: projectId,
    version: project.access_version,
    agents: agentRows,
    devices: deviceRows,
    settings: projectSettings.parse(JSON.parse(project.settings)),
  };
}

/** Brings one project's object up to D1's list. What fails is tried again by the next sweep, and keeps no other from its turn. */
async function deliver(env: Env, projectId: string): Promise<void> {
  const db = database(env.DB);
  try {
    const access = await accessOf(db, projectId);
    if (!access) return;
    await env.PROJECT_QUEUE.getByName(projectId).applyAccess(access);
    // A project that was deleted meanwhile must leave no object behind.
    if (!(await recordApplied(db, projectId, access.version)) && !(await projectStands(db, projectId)))
      await env.PROJECT_QUEUE.getByName(projectId).destroy();
  } catch (error) {
    logFailure(`access of ${projectId} was not delivered:`, error);
  }
}

/** Tells the objects of these projects who may use them now. A delivery that fails is made up by the sweep. */
export async function deliverAccess(env: Env, projectIds: readonly string[]): Promise<void> {
  for (let i = 0; i < projectIds.length; i += DELIVERIES_AT_ONCE)
    await Promise.all(projectIds.slice(i, i + DELIVERIES_AT_ONCE).map((id) => deliver(env, id)));
}

/** The same for all of an account's projects. */
export async function deliverAccount(env: Env, accountId: string): Promise<void> {
  const projects = await projectsOfAccount(database(env.DB), accountId);
  await deliverAccess(
    env,
    projects.map((project) => project.id),
  );
}

/** Delivers what earlier requests did not: each minute's part of the scheduled work. */
export async function deliverMissing(env: Env): Promise<void> {
  const behind = await projectsBehind(database(env.DB), DELIVERIES_PER_SWEEP);
  await deliverAccess(
    env,
    behind.map((p) => p.id),
  );
}
