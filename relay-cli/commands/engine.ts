import type { Engine } from "../engine/contract.ts";
import { createEngine } from "../engine/index.ts";
import type { Context } from "./context.ts";

/** The engine, on this machine's saved Graphs. */
export function engineFor(context: Context): Engine {
  const { store } = context;
  return createEngine({
    async settings({ slug }) {
      const graph = store.graphs.find(slug);
      return graph ? store.settings.of(graph.graph_session_id) : {};
    },
    async findGraph(slug) {
      const graph = store.graphs.find(slug);
      return graph && { slug: graph.slug, path: graph.path };
    },
  });
}
