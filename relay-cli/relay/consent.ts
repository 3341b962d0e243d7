import type { Graph, Project } from "../store/contract.ts";

/**
 * Whether the owner consents, at this moment, to this run: the project is enabled, and the session is still
 * shared with it under the slug it had when the run was asked for (write-up, relay step 4). Whatever the
 * server names beyond that is not trusted. The same rule guards the last write before the start, in
 * `AttemptStore.begin`.
 */
export function hasConsent(
  asked: { graph_session_id: string; slug: string },
  project: Project | undefined,
  shared: readonly Graph[],
): boolean {
  return (
    project?.enabled === true &&
    shared.some((graph) => graph.graph_session_id === asked.graph_session_id && graph.slug === asked.slug)
  );
}
