import { env } from "cloudflare:workers";
import type { ProjectQueueApi } from "../../../src/durable/contract.ts";
import { newId, newProjectId, newUuid } from "../../../src/protocol/ids.ts";
import { DEFAULT_SETTINGS, type ProjectSettings } from "../../../src/protocol/limits.ts";
import { systemClock, systemRandom } from "../../../src/protocol/ports.ts";
import {
  RELAY_PATH,
  type SessionMetadata,
  type SyncResponse,
  sessionsDigest,
} from "../../../src/protocol/relay-api.ts";
import type { AgentAuth, AuthFailure, DeviceAuth } from "../../../src/worker/auth.ts";
import { boundQueues } from "../../../src/worker/bound-queues.ts";
import type { McpDeps } from "../../../src/worker/mcp/call.ts";
import { createMcpRoutes } from "../../../src/worker/mcp/index.ts";
import type { Queues } from "../../../src/worker/queues.ts";
import { createRelayRoutes } from "../../../src/worker/relay-api/index.ts";

// The endpoint's own routes over real D1 and real objects; only the tokens are stand-ins: a token is the
// JSON of what it stands for.

export const ORIGIN = "https://relay.example";
export const MCP_URL = `${ORIGIN}/mcp`;

export const token = (auth: AgentAuth | DeviceAuth): string => btoa(JSON.stringify(auth));

async function readToken<T>(request: Request): Promise<T | AuthFailure> {
  const sent = request.headers.get("authorization");
  if (sent === null) return { error: "missing", description: "Sign in to use this tool" };
  try {
    return JSON.parse(atob(sent.replace("Bearer ", ""))) as T;
  } catch {
    return { error: "invalid", description: "The access token is expired, revoked or not for this server" };
  }
}

export const mcpDeps: McpDeps = {
  authenticate: (request) => readToken<AgentAuth>(request),
  queues: (bound) => boundQueues(bound, systemRandom),
  clock: systemClock,
  random: systemRandom,
};
const routesOver = (queues: McpDeps["queues"]) => ({
  mcp: createMcpRoutes({ ...mcpDeps, queues }),
  relay: createRelayRoutes({
    authenticate: (request) => readToken<DeviceAuth>(request),
    queues,
    now: () => Date.now(),
  }),
});
const bound = routesOver(mcpDeps.queues);
let { mcp, relay } = bound;
/** Gives the routes other objects than the test's, such as ones that fail; without any, the real ones again. */
export function useQueues(queues?: Queues): void {
  ({ mcp, relay } = queues ? routesOver(() => queues) : bound);
}

type TestEnv = Parameters<typeof mcp.fetch>[1];
let testEnv = env as unknown as TestEnv;
/** Gives the routes another database than the test's, such as one that counts. */
export function useDatabase(DB: D1Database): void {
  testEnv = { ...(env as object), DB, PROJECT_QUEUE: env.PROJECT_QUEUE } as TestEnv;
}
export const fetchMcp = (request: Request): Promise<Response> => Promise.resolve(mcp.fetch(request, testEnv));
export const fetchRelay = (request: Request): Promise<Response> =>
  Promise.resolve(relay.fetch(request, testEnv));

export const uuid = (): string => newUuid(systemRandom);

/** An account in D1 with a device, and the ways to add projects, agents and sessions to it. */
export async function newAccount() {
  const account_id = newId("acc", systemRandom);
  await env.DB.prepare("INSERT INTO accounts (id, name, created_at) VALUES (?, 'Owner', 0)")
    .bind(account_id)
    .run();
  const account = { account_id, device_id: await addDevice(account_id) };
  return account;
}

export async function addDevice(account_id: string): Promise<string> {
  const id = newId("dev", systemRandom);
  await env.DB.prepare(
    "INSERT INTO devices (id, account_id, name, platform, client_version, public_jwk, thumbprint, created_at) VALUES (?, ?, 'Laptop', 'linux', '0.1.0', '{}', ?, 0)",
  )
    .bind(id, account_id, id)
    .run();
  return id;
}

export async function addProject(account_id: string, name = "Work"): Promise<string> {
  const id = newProjectId(systemRandom);
  await env.DB.prepare(
    "INSERT INTO projects (id, account_id, name, settings, created_at) VALUES (?, ?, ?, ?, 0)",
  )
    .bind(id, account_id, name, JSON.stringify(DEFAULT_SETTINGS))
    .run();
  return id;
}

/** An agent connected to these projects, in this order, a millisecond apart from `connectedAt` on. */
export async function addAgent(
  account_id: string,
  projects: readonly string[],
  connectedAt = 1000,
): Promise<AgentAuth> {
  const agent_id = newId("agt", systemRandom);
  await env.DB.prepare(
    "INSERT INTO agents (id, account_id, client_id, name, scopes, redirect_host, created_at) VALUES (?, ?, ?, 'Claude', '', '', 0)",
  )
    .bind(agent_id, account_id, agent_id)
    .run();
  for (const [i, project] of projects.entries()) await connect(agent_id, project, connectedAt + i);
  return {
    agent_id,
    account_id,
    client_id: agent_id,
    scopes: ["osfoundry:read", "osfoundry:run"],
    projects: [...projects],
  };
}

export async function connect(agent_id: string, project_id: string, connected_at: number): Promise<void> {
  await env.DB.prepare("INSERT INTO agent_projects (agent_id, project_id, connected_at) VALUES (?, ?, ?)")
    .bind(agent_id, project_id, connected_at)
    .run();
}

export const objectOf = (project_id: string): ProjectQueueApi =>
  env.PROJECT_QUEUE.getByName(project_id) as unknown as ProjectQueueApi;

let version = 1;
/** Gives a project's object its lists. */
export async function giveAccess(
  project_id: string,
  agents: readonly AgentAuth[],
  devices: readonly string[],
  settings: Partial<ProjectSettings> = {},
): Promise<void> {
  await objectOf(project_id).applyAccess({
    project_id,
    version: version++,
    agents: agents.map(({ agent_id }) => ({ agent_id, name: "Claude" })),
    devices: devices.map((device_id) => ({ device_id })),
    settings: { ...DEFAULT_SETTINGS, ...settings },
  });
}

export function session(change: Partial<SessionMetadata> = {}): SessionMetadata {
  return {
    graph_session_id: newId("gs", systemRandom),
    name: "Report",
    description: "Counts files",
    slug: "report",
    version: "1",
    status: "ready",
    ...change,
  };
}

/** A device as a relay would be: its token and its calls. */
export class TestDevice {
  readonly auth: DeviceAuth;
  constructor(account_id: string, device_id: string, projects: readonly string[]) {
    this.auth = { device_id, account_id, projects: [...projects], issued_at: Date.now() };
  }

  call(path: string, body: unknown, headers: Record<string, string> = {}): Promise<Response> {
    return fetchRelay(
      new Request(`${ORIGIN}${RELAY_PATH}${path}`, {
        method: "POST",
        headers: {
          authorization: `Bearer ${token(this.auth)}`,
          "content-type": "application/json",
          ...headers,
        },
        body: typeof body === "string" ? body : JSON.stringify(body),
      }),
    );
  }

  async sync(
    project_id: string,
    sessions: readonly SessionMetadata[],
    withSet = true,
  ): Promise<SyncResponse> {
    const response = await this.call("/sync", {
      project_id,
      sessions_digest: await sessionsDigest(sessions),
      client_version: "0.1.0",
      ...(withSet ? { sessions } : {}),
    });
    if (response.status !== 200) throw new Error(await response.text());
    return response.json();
  }

  async start(command_id: string, attempt_id: string) {
    return (await this.call(`/commands/${command_id}/start`, { attempt_id })).json();
  }

  async complete(command_id: string, attempt_id: string, outcome: object = {}) {
    const body = { attempt_id, execution_id: uuid(), status: "completed", ...outcome };
    return this.call(`/commands/${command_id}/complete`, body);
  }
}

/** One account, one project, one device, one agent, one shared session: the usual case. */
export async function newWorld(
  change: { sessions?: SessionMetadata[]; settings?: Partial<ProjectSettings> } = {},
) {
  const { account_id, device_id } = await newAccount();
  const project_id = await addProject(account_id);
  const agent = await addAgent(account_id, [project_id]);
  await giveAccess(project_id, [agent], [device_id], change.settings);
  const device = new TestDevice(account_id, device_id, [project_id]);
  const sessions = change.sessions ?? [session()];
  await device.sync(project_id, sessions);
  const [first] = sessions;
  return {
    account_id,
    project_id,
    agent,
    device_id,
    device,
    sessions,
    session_id: first?.graph_session_id ?? "",
  };
}

export interface RpcAnswer {
  jsonrpc: string;
  id: unknown;
  result?: {
    isError?: boolean;
    content?: { type: string; text: string }[];
    structuredContent?: Record<string, unknown>;
    resultType?: string;
    _meta?: Record<string, unknown>;
    [key: string]: unknown;
  };
  error?: { code: number; message: string; data?: unknown };
}

export type Revision = "2025-03-26" | "2025-06-18" | "2025-11-25" | "2026-07-28";
export const REVISIONS: readonly Revision[] = ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];

const VERSION_KEY = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities";

/** A request in the form its revision wants. */
export function rpcRequest(
  revision: Revision,
  method: string,
  params: Record<string, unknown> = {},
  options: { auth?: AgentAuth | undefined; id?: unknown; headers?: Record<string, string> } = {},
): Request {
  const modern = revision === "2026-07-28";
  const headers: Record<string, string> = { "content-type": "application/json" };
  if (revision !== "2025-03-26") headers["mcp-protocol-version"] = revision;
  if (modern) headers["mcp-method"] = method;
  if (modern && method === "tools/call") headers["mcp-name"] = String(params.name);
  if (options.auth) headers.authorization = `Bearer ${token(options.auth)}`;
  const meta = { _meta: { [VERSION_KEY]: revision, [CAPABILITIES_KEY]: {} } };
  const body = {
    jsonrpc: "2.0",
    id: options.id ?? 1,
    method,
    params: { ...params, ...(modern ? meta : {}) },
  };
  return new Request(MCP_URL, {
    method: "POST",
    headers: { ...headers, ...options.headers },
    body: JSON.stringify(body),
  });
}

export async function rpc(...args: Parameters<typeof rpcRequest>): Promise<RpcAnswer> {
  return (await fetchMcp(rpcRequest(...args))).json();
}

/** A tool's answer. Fails on a protocol error. */
export async function callTool(
  auth: AgentAuth,
  name: string,
  input: unknown,
  revision: Revision = "2025-11-25",
): Promise<NonNullable<RpcAnswer["result"]> & { structuredContent: Record<string, unknown>; text: string }> {
  const answer = await rpc(revision, "tools/call", { name, arguments: input }, { auth });
  if (!answer.result) throw new Error(JSON.stringify(answer));
  const { structuredContent = {}, content = [] } = answer.result;
  return { ...answer.result, structuredContent, text: content[0]?.text ?? "" };
}

export const run = (auth: AgentAuth, graph_session_id: string, input: object = {}, key: string = uuid()) =>
  callTool(auth, "run_graph_session", { graph_session_id, idempotency_key: key, arguments: input });
export const get = (auth: AgentAuth, command_id: unknown, wait_seconds = 0) =>
  callTool(auth, "get_graph_run", { command_id, wait_seconds });
export const cancel = (auth: AgentAuth, command_id: unknown) =>
  callTool(auth, "cancel_graph_run", { command_id });
