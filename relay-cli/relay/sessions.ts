import { createHash } from "node:crypto";
import type { JsonObject } from "../../src/protocol/json.ts";
import { LIMITS } from "../../src/protocol/limits.ts";
import { type SessionMetadata, sessionMetadata, sessionsDigestText } from "../../src/protocol/relay-api.ts";
import type { Graph } from "../store/contract.ts";

/** What a project is told of the Graphs shared with it: their metadata, never their code or path. */
export interface SharedSet {
  sessions: SessionMetadata[];
  /** Equal to the server's for an equal set, whatever the order. */
  digest: string;
  /** Graphs left out because their metadata does not fit the protocol, or past the limits of a sync. */
  leftOut: Graph[];
}

/** The largest set's JSON in bytes: what a request takes, with room for what goes along with the set. */
const SET_BYTES_MAX = LIMITS.relayBodyBytes - 4_096;

export function sharedSet(graphs: readonly Graph[], isReady: (graph: Graph) => boolean): SharedSet {
  const sessions: SessionMetadata[] = [];
  const leftOut: Graph[] = [];
  let room = SET_BYTES_MAX;
  for (const graph of graphs) {
    const parsed = sessionMetadata.safeParse(metadataOf(graph, isReady(graph)));
    const bytes = parsed.success ? Buffer.byteLength(JSON.stringify(parsed.data)) + 1 : 0;
    if (parsed.success && bytes <= room && sessions.length < LIMITS.sessionsPerSync) {
      sessions.push(parsed.data);
      room -= bytes;
    } else leftOut.push(graph);
  }
  const digest = createHash("sha256").update(sessionsDigestText(sessions)).digest("hex");
  return { sessions, digest, leftOut };
}

function metadataOf(graph: Graph, ready: boolean): SessionMetadata {
  return {
    graph_session_id: graph.graph_session_id,
    name: graph.name,
    description: graph.description,
    slug: graph.slug,
    version: graph.version,
    status: ready ? "ready" : "unavailable",
    ...(graph.arguments_schema === null
      ? {}
      : { arguments_schema: JSON.parse(graph.arguments_schema) as JsonObject }),
  };
}
