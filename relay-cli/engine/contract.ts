/** A value that JSON can carry, as the engine passes it between a Graph and the world. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** One Graph to run, and where its events go. */
export interface RunRequest {
  /** A UUID; names the run in the history. */
  execution_id: string;
  /** What asked for it: `graph:external:<command id>` or `graph:local:<execution id>`. */
  channel: string;
  graph: GraphRef;
  args: { [key: string]: Json };
  /** Tokens that the run may use, beside what the owner set for the Graph; the lower one holds. */
  token_ceiling?: number;
  /** Called in the order things happen; must not throw. */
  onEvent(event: EngineEvent): void;
}

/** A saved Graph of the owner. */
export interface GraphRef {
  slug: string;
  /** Absolute path of the ES module. */
  path: string;
}

/** What happens in a run. Enough for the history to hold all of it. */
export type EngineEvent =
  /** The Graph's process is up; `run_id` is what `fleetCancelRun` takes. */
  | { type: "fleet_started"; run_id: string }
  /** `graph` is the slug of the sub-Graph that wrote it; absent for the run's own Graph. */
  | { type: "log"; line: string; graph?: string }
  | {
      type: "progress";
      progress: { state: "running" | "awaiting_approval"; message?: string; percent?: number };
    }
  | { type: "agent_started"; agent: number; model: string; prompt: string; system?: string; graph?: string }
  | {
      type: "agent_finished";
      agent: number;
      answer: string;
      input_tokens: number;
      output_tokens: number;
      milliseconds: number;
      error?: string;
      graph?: string;
    }
  /** A use of a tool, by the Graph or an agent: what exactly, whether it was allowed, and by what or whom. */
  | {
      type: "tool_used";
      tool: string;
      request: string;
      decision: "allowed" | "refused";
      by: string;
      graph?: string;
    };

/** How a run ended. Never an exception: a Graph that dies is a failed run. */
export interface RunOutcome {
  status: "completed" | "failed" | "cancelled";
  /** The JSON text of what the Graph returned, whatever its size. */
  result_json?: string;
  error?: string;
  /** Of all agents, sub-Graphs included; null if none ran. */
  total_tokens: number | null;
  /** US dollars; null if no price is configured. */
  reported_cost: number | null;
  /** It was told to stop, and had come to its own end first. */
  finished_before_stop?: boolean;
}

/** What a Graph's file says of itself. Every field is as the file has it, of any length. */
export interface GraphMeta {
  name?: string;
  description?: string;
  version?: string;
  /** JSON Schema of the arguments. */
  arguments?: { [key: string]: Json };
}

/** A Graph's `meta`, or why the file would not load. */
export type GraphDescription = { ok: true; meta: GraphMeta } | { ok: false; error: string };

/** Runs Graphs. Knows nothing of relays, projects or servers. */
export interface Engine {
  run(request: RunRequest): Promise<RunOutcome>;
  /** Tells a run to stop: SIGTERM to its process group, SIGKILL after 10 s. True the first time, false after. */
  fleetCancelRun(run_id: string): boolean;
  /** Reads a Graph's `meta` by loading its file in a process of its own, for at most 15 s. Never rejects. */
  describe(graph: GraphRef): Promise<GraphDescription>;
}
