import { and, asc, eq, isNull, lt, sql } from "drizzle-orm";
import { newProjectId } from "../../protocol/ids.ts";
import { DEFAULT_SETTINGS, type ProjectSettings, projectSettings } from "../../protocol/limits.ts";
import type { RandomSource } from "../../protocol/ports.ts";
import type { Database, Statement } from "./client.ts";
import { won } from "./client.ts";
import { projects } from "./schema.ts";

export interface ProjectRow {
  id: string;
  name: string;
}

/** A project that is there, of this account. */
const ownProject = (accountId: string, projectId: string) =>
  and(eq(projects.id, projectId), eq(projects.account_id, accountId), isNull(projects.disabled_at));

/** An account's projects, oldest first. */
export const projectsOfAccount = (db: Database, accountId: string) =>
  db
    .select({ id: projects.id, name: projects.name })
    .from(projects)
    .where(and(eq(projects.account_id, accountId), isNull(projects.disabled_at)))
    .orderBy(asc(projects.created_at));

/** A project of this account with its settings. */
export async function projectOfAccount(
  db: Database,
  accountId: string,
  projectId: string,
): Promise<(ProjectRow & { settings: ProjectSettings }) | undefined> {
  const [row] = await db
    .select({ id: projects.id, name: projects.name, settings: projects.settings })
    .from(projects)
    .where(ownProject(accountId, projectId));
  return row && { ...row, settings: projectSettings.parse(JSON.parse(row.settings)) };
}

/** The statement that makes a project, and its id. The id's 48 random bits are drawn again by the caller on a collision. */
export function projectInsert(
  db: Database,
  project: { accountId: string; name: string; now: number },
  random: RandomSource,
): { id: string; statement: Statement } {
  const id = newProjectId(random);
  const statement = db.insert(projects).values({
    id,
    account_id: project.accountId,
    name: project.name,
    settings: JSON.stringify(DEFAULT_SETTINGS),
    created_at: project.now,
  });
  return { id, statement };
}

/** Renames a project of this account. False: there is none with this id. */
export const renameProject = async (db: Database, accountId: string, projectId: string, name: string) =>
  won(await db.update(projects).set({ name }).where(ownProject(accountId, projectId)));

/** The statement that gives a project of this account other settings, for its object to be told. */
export const settingsChange = (
  db: Database,
  accountId: string,
  projectId: string,
  settings: ProjectSettings,
): Statement =>
  db
    .update(projects)
    .set({
      settings: JSON.stringify(settings),
      access_version: sql`${projects.access_version} + 1`,
    })
    .where(ownProject(accountId, projectId));

/** Notes that who may use an account's projects has changed: part of the batch that changes it. */
export const accountAccessBump = (db: Database, accountId: string): Statement =>
  db
    .update(projects)
    .set({ access_version: sql`${projects.access_version} + 1` })
    .where(eq(projects.account_id, accountId));

/** Projects whose object does not hold the newest access yet, at most `limit`. */
export const projectsBehind = (db: Database, limit: number) =>
  db
    .select({ id: projects.id })
    .from(projects)
    .where(and(lt(projects.access_applied, projects.access_version), isNull(projects.disabled_at)))
    .limit(limit);

/** Whether a project is there and not being deleted. */
export async function projectStands(db: Database, projectId: string): Promise<boolean> {
  const [row] = await db
    .select({ id: projects.id })
    .from(projects)
    .where(and(eq(projects.id, projectId), isNull(projects.disabled_at)));
  return row !== undefined;
}

/** Records what the object holds; a late answer of an older delivery changes nothing. */
export const recordApplied = async (db: Database, projectId: string, version: number) =>
  won(
    await db
      .update(projects)
      .set({ access_applied: version })
      .where(and(eq(projects.id, projectId), lt(projects.access_applied, version))),
  );
