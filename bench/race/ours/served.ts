import { mkdirSync } from "node:fs";
import { RELAY_PATH, type SyncResponse, sessionsDigest } from "../../../src/protocol/relay-api.ts";
import type { RunOutput } from "../../../src/protocol/tools.ts";
import type { Contestant, Laptop, OpenContestant } from "../contestant.ts";
import { keyOf } from "../payload.ts";
import { bundleSources, devtoolsProfiler } from "../profiler.ts";
import { freePort } from "../servers.ts";
import { ROOT, startRacingEndpoint } from "./endpoint.ts";
import { type Poster, poster } from "./http.ts";
import { fillObject, outcome, storedCommandId } from "./stored.ts";

// The product as its user has it: `wrangler dev` over HTTP, agents by MCP with their tokens, laptops by the
// relay API with theirs. One project, hence one object; each client has a device with one session.

const MOST_CLIENTS = 100;
const hex = (client: number) => (client + 1).toString(16).padStart(32, "0");
const device = (client: number) => `dev_${hex(client)}`;
const session = (client: number) => `gs_${hex(client)}`;
const CLIENT_VERSION = "0.1.0";

interface ToolAnswer {
  result?: { structuredContent?: RunOutput; isError?: boolean; content?: unknown };
  error?: unknown;
}

export const openContestant: OpenContestant = async ({ folder }) => {
  mkdirSync(folder, { recursive: true });
  const port = await freePort();
  const devices = Array.from({ length: MOST_CLIENTS }, (_, client) => device(client));
  const endpoint = await startRacingEndpoint(folder, port, devices);
  const number = endpoint.projectId.slice("prj_".length);
  let agents: Poster | undefined;
  let laptops: Poster | undefined;
  let laptop: Laptop | undefined;
  let tokens: string[] = [];
  const busy = new Set<number>();
  let stored = 0;
  let inspector = "";

  const contestant: Contestant = {
    get servers() {
      return [endpoint.pid];
    },

    profiler: {
      prepare: async () => {
        inspector = await endpoint.withDebugger();
      },
      start: () => devtoolsProfiler(inspector),
      sources: () => bundleSources(ROOT),
    },

    async open(clients, serving) {
      if (clients > MOST_CLIENTS) throw new Error(`At most ${MOST_CLIENTS} clients`);
      laptop = serving;
      agents = poster(port, clients);
      laptops = poster(port, clients);
      tokens = await Promise.all(devices.slice(0, clients).map(endpoint.deviceToken));
      await Promise.all(tokens.map((_, client) => share(client)));
    },

    async enqueue(client, key, argumentsText) {
      const run = await tool(client, "run_graph_session", {
        graph_session_id: session(client),
        arguments: JSON.parse(argumentsText),
        idempotency_key: key,
      });
      if (!run) throw new Error("no ticket");
      // The laptop is told at once, as by a wake.
      if (run.status === "queued") void pass(client);
      return run.command_id;
    },

    async read(client, id) {
      const run = await tool(client, "get_graph_run", { command_id: id, wait_seconds: 0 });
      return run && { finished: run.status === "completed", resultJson: run.result as string | undefined };
    },

    async fill(total) {
      const owner = {
        number,
        agent_id: endpoint.agentId,
        device_id: device(0),
        graph_session_id: session(0),
      };
      await endpoint.whileStopped((file) => fillObject(file, owner, stored, total));
      stored = total;
    },

    storedId: (index) => storedCommandId(number, index),

    async close() {
      laptop = undefined;
      agents?.close();
      laptops?.close();
    },

    end: () => endpoint.stop(),
  };

  /** `undefined`: not found, or not this agent's. */
  async function tool(client: number, name: string, input: unknown): Promise<RunOutput | undefined> {
    const message = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name, arguments: input } };
    const token = endpoint.agentTokens[client === 0 ? 0 : 1];
    const answer = await open(agents).post<ToolAnswer>("/mcp", token, message, {
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": "2025-11-25",
    });
    if (answer.result?.structuredContent && !answer.result.isError) return answer.result.structuredContent;
    if (name === "get_graph_run" && answer.result?.isError) return undefined;
    throw new Error(`${name}: ${JSON.stringify(answer).slice(0, 300)}`);
  }

  const relay = <T>(client: number, path: string, body: unknown): Promise<T> =>
    open(laptops).post<T>(RELAY_PATH + path, tokens[client] ?? "", body);

  async function sync(client: number, send: boolean): Promise<SyncResponse> {
    const set = sessionsOf(client);
    return relay<SyncResponse>(client, "/sync", {
      project_id: endpoint.projectId,
      sessions_digest: await digestOf(client),
      client_version: CLIENT_VERSION,
      ...(send && { sessions: set }),
    });
  }

  async function share(client: number): Promise<void> {
    if ((await sync(client, false)).sessions === "send") await sync(client, true);
  }

  /** The woken laptop's pass: asks for its commands and does them. One at a time, as the relay's. */
  async function pass(client: number): Promise<void> {
    const serving = laptop;
    if (!serving || busy.has(client)) return;
    busy.add(client);
    try {
      const { commands } = await sync(client, false);
      for (const command of commands)
        await run(serving, client, command.command_id, JSON.stringify(command.arguments));
    } catch (error) {
      serving.failed(error);
    } finally {
      busy.delete(client);
    }
  }

  async function run(serving: Laptop, client: number, id: string, argumentsText: string): Promise<void> {
    const attempt_id = crypto.randomUUID();
    const started = await relay<{ go: boolean }>(client, `/commands/${id}/start`, { attempt_id });
    if (!started.go) return;
    const key = keyOf(argumentsText);
    const result = await serving.run({
      key,
      argumentsJson: argumentsText,
      heartbeat: async () => {
        const body = { attempt_id, progress: { state: "running", percent: 50 } };
        const beat = await relay<{ alive: boolean }>(client, `/commands/${id}/control`, body);
        if (!beat.alive) throw new Error("The run is not this attempt's any more");
      },
    });
    const body = { attempt_id, ...outcome(result) };
    const done = await relay<{ record: string }>(client, `/commands/${id}/complete`, body);
    if (done.record !== "stored") throw new Error("The result was kept out");
    serving.completed(key);
  }

  return contestant;
};

function open(connection: Poster | undefined): Poster {
  if (!connection) throw new Error("not open");
  return connection;
}

const sessionsOf = (client: number) => [
  {
    graph_session_id: session(client),
    name: "Race",
    description: "Does nothing, as fast as it can.",
    slug: "race",
    version: "1",
    status: "ready" as const,
  },
];

const digests = new Map<number, Promise<string>>();
/** Computed once, as the relay does. */
function digestOf(client: number): Promise<string> {
  const known = digests.get(client) ?? sessionsDigest(sessionsOf(client));
  digests.set(client, known);
  return known;
}
