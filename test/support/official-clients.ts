import * as v2 from "@modelcontextprotocol/client";
import { Client as V1Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as V1Transport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

interface ToolAnswer {
  isError?: boolean;
  structuredContent?: Record<string, unknown>;
  content: { type: string; text?: string }[];
}

/** The same few calls, whichever client makes them. */
export interface Agent {
  tools(): Promise<string[]>;
  call(name: string, input: Record<string, unknown>): Promise<ToolAnswer>;
  close(): Promise<void>;
}

/** Where a client is sent to sign in, and how: `consent` takes the consent page's address and answers the callback's. */
export interface Door {
  url: string;
  redirectUrl: string;
  consent(page: URL): Promise<URL>;
}

/** What a client stores between its steps. */
class Provider {
  readonly redirectUrl: string;
  readonly clientMetadata;
  readonly #door: Door;
  callback: URL | undefined;
  #discovery: v2.OAuthDiscoveryState | undefined;
  #client: { client_id: string } | undefined;
  #tokens: { access_token: string; token_type: string } | undefined;
  #verifier = "";

  constructor(door: Door) {
    this.#door = door;
    this.redirectUrl = door.redirectUrl;
    this.clientMetadata = {
      client_name: "Official client",
      redirect_uris: [door.redirectUrl],
      token_endpoint_auth_method: "none",
    };
  }

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
  /** What the client calls when a refresh was refused. */
  invalidateCredentials() {
    this.#tokens = undefined;
  }
  saveCodeVerifier(verifier: string) {
    this.#verifier = verifier;
  }
  codeVerifier() {
    return this.#verifier;
  }
  async redirectToAuthorization(url: URL) {
    this.callback = await this.#door.consent(url);
  }
}

/** Connects: the first try is turned away, the client sends the owner to sign in, the second gets in. */
async function signIn(
  connect: () => Promise<void>,
  finish: (callback: URL) => Promise<void>,
  provider: Provider,
): Promise<void> {
  const refused = await connect().then(
    () => undefined,
    (error: unknown) => String(error),
  );
  if (!/unauthorized/i.test(refused ?? "")) throw new Error(`Not turned away, but: ${refused}`);
  if (!provider.callback) throw new Error("The client sent nobody to sign in");
  await finish(provider.callback);
}

async function v2Agent(
  door: Door,
  versionNegotiation?: v2.ClientOptions["versionNegotiation"],
): Promise<Agent> {
  const provider = new Provider(door);
  const url = new URL("/mcp", door.url);
  const connect = () => {
    const client = new v2.Client(
      { name: "official-2", version: "1.0.0" },
      versionNegotiation ? { versionNegotiation } : {},
    );
    const transport = new v2.StreamableHTTPClientTransport(url, { authProvider: provider });
    return { client, transport, connected: () => client.connect(transport) };
  };
  const first = connect();
  await signIn(first.connected, (c) => first.transport.finishAuth(c.searchParams), provider);
  const { client, connected } = connect();
  await connected();
  return {
    tools: async () => (await client.listTools()).tools.map((tool) => tool.name),
    call: async (name, input) => (await client.callTool({ name, arguments: input })) as ToolAnswer,
    close: () => client.close(),
  };
}

async function v1Agent(door: Door): Promise<Agent> {
  const provider = new Provider(door);
  const url = new URL("/mcp", door.url);
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

/** Connects each official TypeScript client, by name, the way its own OAuth flow goes. */
export const OFFICIAL_CLIENTS: readonly (readonly [string, (door: Door) => Promise<Agent>])[] = [
  ["@modelcontextprotocol/client 2.4, legacy", (door) => v2Agent(door)],
  ["@modelcontextprotocol/client 2.4, auto", (door) => v2Agent(door, { mode: "auto" })],
  [
    "@modelcontextprotocol/client 2.4, pinned to 2026-07-28",
    (door) => v2Agent(door, { mode: { pin: "2026-07-28" } }),
  ],
  ["@modelcontextprotocol/sdk 1.x", (door) => v1Agent(door)],
];
