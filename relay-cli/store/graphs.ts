import type { Graph, GraphStore } from "./contract.ts";
import { StoreConflict } from "./errors.ts";
import { bumpSharingVersion } from "./sharing-version.ts";
import type { Sql } from "./sql.ts";

export const GRAPH_COLUMNS =
  "graph_session_id, slug, graphs.name AS name, description, version, path, arguments_schema, added_at";

export function graphStore(sql: Sql): GraphStore {
  const bySlug = (slug: string) => sql.get<Graph>(`SELECT ${GRAPH_COLUMNS} FROM graphs WHERE slug = ?`, slug);
  const byId = (id: string) =>
    sql.get<Graph>(`SELECT ${GRAPH_COLUMNS} FROM graphs WHERE graph_session_id = ?`, id);
  const refuseTakenSlug = (graph: Graph) => {
    const other = bySlug(graph.slug);
    if (other && other.graph_session_id !== graph.graph_session_id)
      throw new StoreConflict(
        `There is a Graph called ${graph.slug} already (${other.path}). Choose another name with --slug, or remove that one.`,
      );
  };

  return {
    add(graph) {
      sql.atomically(() => {
        refuseTakenSlug(graph);
        sql.run(
          `INSERT INTO graphs (graph_session_id, slug, name, description, version, path, arguments_schema, added_at)
           VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
          graph.graph_session_id,
          graph.slug,
          graph.name,
          graph.description,
          graph.version,
          graph.path,
          graph.arguments_schema,
          graph.added_at,
        );
        bumpSharingVersion(sql);
      });
    },
    update: (graph) =>
      sql.atomically(() => {
        refuseTakenSlug(graph);
        const changed = sql.run(
          `UPDATE graphs SET slug = ?, name = ?, description = ?, version = ?, path = ?, arguments_schema = ?
           WHERE graph_session_id = ?`,
          graph.slug,
          graph.name,
          graph.description,
          graph.version,
          graph.path,
          graph.arguments_schema,
          graph.graph_session_id,
        );
        if (changed) bumpSharingVersion(sql);
        return changed === 1;
      }),
    remove: (graphSessionId) =>
      sql.atomically(() => {
        const removed = sql.run("DELETE FROM graphs WHERE graph_session_id = ?", graphSessionId);
        if (removed) bumpSharingVersion(sql);
        return removed === 1;
      }),
    list: () => sql.all<Graph>(`SELECT ${GRAPH_COLUMNS} FROM graphs ORDER BY slug`),
    find: (idOrSlug) => byId(idOrSlug) ?? bySlug(idOrSlug),
  };
}
