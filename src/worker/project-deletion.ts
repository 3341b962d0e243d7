import { type Database, database } from "./db/client.ts";
import { leavingProjects, projectRows } from "./db/project-deletion.ts";
import type { Env } from "./env.ts";
import { logFailure } from "./log.ts";

const PROJECTS_PER_SWEEP = 50;

/** A project that `projectEnd` has shut: its object is emptied, its rows go. False: the sweep tries again. */
export async function finishProjectDeletion(
  env: Env,
  project: { id: string; account_id: string },
  db: Database = database(env.DB),
): Promise<boolean> {
  try {
    // Whoever waits for a run of it is answered now, as for one that never was.
    await env.PROJECT_QUEUE.getByName(project.id).destroy();
    await db.batch(projectRows(db, project));
    return true;
  } catch (error) {
    logFailure(`project ${project.id} is not deleted yet:`, error);
    return false;
  }
}

/** Goes on with deletions of projects that were cut off. */
export async function finishProjectDeletions(env: Env): Promise<void> {
  const db = database(env.DB);
  for (const project of await leavingProjects(db, PROJECTS_PER_SWEEP))
    await finishProjectDeletion(env, project, db);
}
