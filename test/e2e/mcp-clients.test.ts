import { randomUUID } from "node:crypto";
import * as v2 from "@modelcontextprotocol/client";
import { Client as V1Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as V1Transport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { SessionMetadata } from "../../src/protocol/relay-api.ts";
import { startTestEndpoint, type TestEndpoint } from "../support/endpoint.ts";
import { ScriptedDevice } from "../support/scripted-device.ts";

const SESSION: SessionMetadata = {
  graph_session_id: "gs_00000000000000000000000000000001",
  name: "Report",
  description: "Counts files",
  slug: "report",
  version: "1",
  status: "ready",
};

let endpoint: TestEndpoint;
let device: ScriptedDevice;
beforeAll(async () => {
  endpoint = await startTestEndpoint();
  device = await ScriptedDevice.pair(endpoint);
  await device.sync([SESSION]);
});
afterAll(() => endpoint.stop());

interface ToolAnswer {
  isError?: boolean;
  structuredContent?: Record<string, unknown>;
  content: { type: string; text?: string }[];
}

/** The same few calls, whichever client makes them. */
interface Agent {
  tools(): Promise<string[]>;
  call(name: string, input: Record<string, unknown>): Promise<ToolAnswer>;
  close(): Promise<void>;
}

/** What a client stores between its steps, and the owner's browser where it opens one. */
class Provider {
  readonly redirectUrl = "http://127.0.0.1:33418/callback";
  readonly clientMetadata = {
    client_name: "Official client",
    redirect_uris: [this.redirectUrl],
    token_endpoint_auth_method: "none",
  };
  callback: URL | undefined;
  #discovery: v2.OAuthDiscoveryState | undefined;
  #client: { client_id: string } | undefined;
  #tokens: { access_token: string; token_type: string } | undefined;
  #verifier = "";

  discoveryState() {
    return this.#discovery;
  }
  saveDiscoveryState(state: v2.OAuthDiscoveryState) {
    this.#discovery = state;
  }
  clientInformation() {
    return this.#client;
  }
  saveClientInformation(client: { client_id: string }) {
    this.#client = client;
  }
  tokens() {
    return this.#tokens;
  }
  saveTokens(tokens: { access_token: string; token_type: string }) {
    this.#tokens = tokens;
  }
  saveCodeVerifier(verifier: string) {
    this.#verifier = verifier;
  }
  codeVerifier() {
    return this.#verifier;
  }
  async redirectToAuthorization(url: URL) {
    this.callback = new URL(await endpoint.owner.approve(url.href));
  }
}

/** Connects: the first try is turned away, the client sends the owner to sign in, the second gets in. */
async function signIn(
  connect: () => Promise<void>,
  finish: (callback: URL) => Promise<void>,
  provider: Provider,
): Promise<void> {
  await expect(connect()).rejects.toThrow(/unauthorized/i);
  if (!provider.callback) throw new Error("The client sent nobody to sign in");
  await finish(provider.callback);
}

async function v2Agent(versionNegotiation?: v2.ClientOptions["versionNegotiation"]): Promise<Agent> {
  const provider = new Provider();
  const url = new URL("/mcp", endpoint.url);
  const connect = async () => {
    const client = new v2.Client(
      { name: "official-2", version: "1.0.0" },
      versionNegotiation ? { versionNegotiation } : {},
    );
    const transport = new v2.StreamableHTTPClientTransport(url, { authProvider: provider });
    return { client, transport, connected: () => client.connect(transport) };
  };
  const first = await connect();
  await signIn(first.connected, (c) => first.transport.finishAuth(c.searchParams), provider);
  const { client, connected } = await connect();
  await connected();
  return {
    tools: async () => (await client.listTools()).tools.map((tool) => tool.name),
    call: async (name, input) => (await client.callTool({ name, arguments: input })) as ToolAnswer,
    close: () => client.close(),
  };
}

async function v1Agent(): Promise<Agent> {
  const provider = new Provider();
  const url = new URL("/mcp", endpoint.url);
  const connect = () => {
    const client = new V1Client({ name: "official-1", version: "1.0.0" });
    const transport = new V1Transport(url, { authProvider: provider });
    return { client, transport, connected: () => client.connect(transport as never) };
  };
  const first = connect();
  await signIn(
    first.connected,
    (c) => first.transport.finishAuth(c.searchParams.get("code") ?? ""),
    provider,
  );
  const { client, connected } = connect();
  await connected();
  return {
    tools: async () => (await client.listTools()).tools.map((tool) => tool.name),
    call: async (name, input) => (await client.callTool({ name, arguments: input })) as ToolAnswer,
    close: () => client.close(),
  };
}

describe.each<[string, () => Promise<Agent>]>([
  ["@modelcontextprotocol/client 2.4, legacy", () => v2Agent()],
  ["@modelcontextprotocol/client 2.4, auto", () => v2Agent({ mode: "auto" })],
  ["@modelcontextprotocol/client 2.4, pinned to 2026-07-28", () => v2Agent({ mode: { pin: "2026-07-28" } })],
  ["@modelcontextprotocol/sdk 1.x", () => v1Agent()],
])("%s", (_, connect) => {
  let agent: Agent;
  beforeAll(async () => {
    agent = await connect();
  });
  afterAll(() => agent.close());

  const run = async () => {
    const ticket = await agent.call("run_graph_session", {
      graph_session_id: SESSION.graph_session_id,
      arguments: { folder: "." },
      idempotency_key: randomUUID(),
    });
    return String(ticket.structuredContent?.command_id);
  };

  it("lists the four tools, and the shared session", async () => {
    expect(await agent.tools()).toEqual([
      "list_graph_sessions",
      "run_graph_session",
      "get_graph_run",
      "cancel_graph_run",
    ]);
    const listed = await agent.call("list_graph_sessions", {});
    expect(listed.structuredContent?.sessions).toMatchObject([{ name: "Report", desktop: { online: true } }]);
    expect(listed.content[0]?.text).toContain(SESSION.graph_session_id);
  });

  it("runs the session and waits for its result", async () => {
    const command_id = await run();
    const waiting = agent.call("get_graph_run", { command_id, wait_seconds: 30 });
    const { commands } = await device.sync([SESSION]);
    expect(commands.map((c) => [c.command_id, c.arguments])).toContainEqual([command_id, { folder: "." }]);
    await device.finish(command_id, { files: 3 });
    const answer = await waiting;
    expect(answer.structuredContent).toMatchObject({ status: "completed", result: { files: 3 } });
    expect(answer.content[0]?.text).toContain('{"files":3}');
  });

  it("cancels a queued run, which then never reaches the laptop", async () => {
    const command_id = await run();
    const answer = await agent.call("cancel_graph_run", { command_id });
    expect(answer.structuredContent).toMatchObject({ cancel: "cancelled", status: "cancelled" });
    const { commands } = await device.sync([SESSION]);
    expect(commands).toEqual([]);
  });

  it("hears what was wrong, in an answer that its own checks accept", async () => {
    const answer = await agent.call("get_graph_run", { command_id: randomUUID() });
    expect(answer.isError).toBe(true);
    expect(answer.content[0]?.text).toBe("Graph run not found or access removed");
  });
});
