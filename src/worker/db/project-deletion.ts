import { and, eq, isNotNull, isNull, sql } from "drizzle-orm";
import type { Database, Statement } from "./client.ts";
import { agentProjects, devices, graphSessions, projects } from "./schema.ts";

/** The statements that end every way to a project, and keep its object from being given lists again. */
export const projectEnd = (db: Database, projectId: string, now: number): Statement[] => [
  db
    .update(projects)
    .set({ disabled_at: now })
    .where(and(eq(projects.id, projectId), isNull(projects.disabled_at))),
  db.delete(agentProjects).where(eq(agentProjects.project_id, projectId)),
];

/** Projects whose deletion was begun, at most `limit`. */
export const leavingProjects = (db: Database, limit: number) =>
  db
    .select({ id: projects.id, account_id: projects.account_id })
    .from(projects)
    .where(isNotNull(projects.disabled_at))
    .limit(limit);

/** The ids of an account's projects, those being deleted included. */
export const everyProjectOfAccount = (db: Database, accountId: string) =>
  db.select({ id: projects.id }).from(projects).where(eq(projects.account_id, accountId));

/** The statements that delete every row of a project, children first. */
export const projectRows = (
  db: Database,
  project: { id: string; account_id: string },
): [Statement, ...Statement[]] => [
  db.delete(agentProjects).where(eq(agentProjects.project_id, project.id)),
  db.delete(graphSessions).where(eq(graphSessions.project_id, project.id)),
  db
    .update(devices)
    .set({ set_versions: sql`json_remove(${devices.set_versions}, '$.' || ${project.id})` })
    .where(eq(devices.account_id, project.account_id)),
  db.delete(projects).where(eq(projects.id, project.id)),
];
