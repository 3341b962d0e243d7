import type { Engine } from "../engine/contract.ts";
import { createEngine } from "../engine/index.ts";
import type { Context } from "./context.ts";

/** The engine, on this machine's saved Graphs. */
export function engineFor(context: Context): Engine {
  return createEngine({
    async findGraph(slug) {
      const graph = context.store.graphs.find(slug);
      return graph && { slug: graph.slug, path: graph.path };
    },
  });
}
