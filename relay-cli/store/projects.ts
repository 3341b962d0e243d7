import type { Graph, KnownProject, Project, ProjectStore } from "./contract.ts";
import { GRAPH_COLUMNS } from "./graphs.ts";
import { bumpSharingVersion, sharingVersion } from "./sharing-version.ts";
import type { Sql } from "./sql.ts";

type ProjectRow = Omit<Project, "enabled"> & { enabled: number };
const COLUMNS = "project_id, name, enabled, told_digest, problem";
const toProject = (row: ProjectRow): Project => ({ ...row, enabled: row.enabled === 1 });

export function projectStore(sql: Sql): ProjectStore {
  return {
    list: () =>
      sql.all<ProjectRow>(`SELECT ${COLUMNS} FROM projects ORDER BY name, project_id`).map(toProject),
    find(idOrName) {
      const byId = sql.get<ProjectRow>(`SELECT ${COLUMNS} FROM projects WHERE project_id = ?`, idOrName);
      if (byId) return toProject(byId);
      const [only, another] = sql.all<ProjectRow>(`SELECT ${COLUMNS} FROM projects WHERE name = ?`, idOrName);
      return only && !another ? toProject(only) : undefined;
    },
    setKnown(projects) {
      sql.atomically(() => {
        if (replaceProjects(sql, projects)) bumpSharingVersion(sql);
      });
    },
    setEnabled: (projectId, enabled) =>
      sql.atomically(() => {
        const changed = sql.run(
          "UPDATE projects SET enabled = ? WHERE project_id = ? AND enabled <> ?",
          Number(enabled),
          projectId,
          Number(enabled),
        );
        if (changed) bumpSharingVersion(sql);
        return changed === 1;
      }),
    share: (projectId, graphSessionId, at) =>
      sql.atomically(() => {
        const added = sql.run(
          "INSERT INTO shares (project_id, graph_session_id, shared_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
          projectId,
          graphSessionId,
          at,
        );
        const enabled = sql.run(
          "UPDATE projects SET enabled = 1 WHERE project_id = ? AND enabled = 0",
          projectId,
        );
        if (added + enabled > 0) bumpSharingVersion(sql);
        return added === 1;
      }),
    unshare: (projectId, graphSessionId) =>
      sql.atomically(() => {
        const removed = sql.run(
          "DELETE FROM shares WHERE project_id = ? AND graph_session_id = ?",
          projectId,
          graphSessionId,
        );
        if (removed) bumpSharingVersion(sql);
        return removed === 1;
      }),
    shared: (projectId) =>
      sql.all<Graph>(
        `SELECT ${GRAPH_COLUMNS} FROM graphs
         JOIN shares USING (graph_session_id) JOIN projects USING (project_id)
         WHERE project_id = ? AND enabled = 1 ORDER BY graph_session_id`,
        projectId,
      ),
    sharedWith: (graphSessionId) =>
      sql
        .all<{ project_id: string }>(
          "SELECT project_id FROM shares WHERE graph_session_id = ? ORDER BY project_id",
          graphSessionId,
        )
        .map((row) => row.project_id),
    noteSent(projectId, digest) {
      sql.run(
        "UPDATE projects SET told_digest = ? WHERE project_id = ? AND told_digest IS NOT ?",
        digest,
        projectId,
        digest,
      );
    },
    noteSync(projectId, note) {
      if (note.told_digest !== undefined)
        sql.run(
          "UPDATE projects SET told_digest = ?, problem = NULL WHERE project_id = ? AND (told_digest IS NOT ? OR problem IS NOT NULL)",
          note.told_digest,
          projectId,
          note.told_digest,
        );
      if (note.problem !== undefined)
        sql.run(
          "UPDATE projects SET problem = ? WHERE project_id = ? AND problem IS NOT ?",
          note.problem,
          projectId,
          note.problem,
        );
    },
    sharingVersion: () => sharingVersion(sql),
    bumpSharingVersion: () => bumpSharingVersion(sql),
  };
}

/** Makes the known projects these ones, and says whether that changed anything. Part of the caller's write. */
export function replaceProjects(sql: Sql, projects: readonly KnownProject[]): boolean {
  let changed = sql.run(
    "DELETE FROM projects WHERE project_id NOT IN (SELECT value FROM json_each(?))",
    JSON.stringify(projects.map((project) => project.project_id)),
  );
  for (const { project_id, name } of projects)
    changed += sql.run(
      `INSERT INTO projects (project_id, name) VALUES (?, ?)
       ON CONFLICT (project_id) DO UPDATE SET name = excluded.name WHERE name <> excluded.name`,
      project_id,
      name,
    );
  return changed > 0;
}
