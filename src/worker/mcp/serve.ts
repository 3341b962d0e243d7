import {
  createMcpHandler,
  isLegacyRequest,
  Server,
  WebStandardStreamableHTTPServerTransport,
} from "@modelcontextprotocol/server";
import { isJsonObject, type JsonObject } from "../../protocol/json.ts";
import type { ToolContext } from "./context.ts";
import { LISTED_TOOLS } from "./listing.ts";
import type { Message } from "./message.ts";
import { type CallOptions, callTool } from "./tool-call.ts";

/** The revisions from before 2026-07-28, newest first. One without the header is the oldest. */
export const LEGACY_REVISIONS = ["2025-11-25", "2025-06-18", "2025-03-26"] as const;
export type LegacyRevision = (typeof LEGACY_REVISIONS)[number];
/** Revisions whose clients take input errors as protocol errors. */
const PROTOCOL_ERROR_REVISIONS: readonly string[] = ["2025-06-18", "2025-03-26"];

const INFO = { name: "graph-relay", title: "Graph Relay", version: "0.1.0" };
const INSTRUCTIONS =
  "Graphs are saved programs on an owner's desktop. List the shared ones with list_graph_sessions, queue a run with run_graph_session, " +
  "then call get_graph_run with the ticket's command_id until the run ended. Nothing runs unless the desktop is online.";

const VERSION_KEY = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities";

/** One message to serve, and for whom. A message that answers anyone comes without a context. */
export interface Exchange {
  request: Request;
  message: Exclude<Message, { kind: "response" }>;
  context?: ToolContext;
  fault?: CallOptions["fault"];
}

/** Whether the message belongs to the revisions from before 2026-07-28; malformed newer ones do not. */
export const isLegacy = ({ request, message, fault }: Exchange): Promise<boolean> =>
  isLegacyRequest(sdkRequest(request), wireMessage(message, fault));

/** Serves one message of revision 2026-07-28, or answers what is wrong with it. */
export function serveModern(exchange: Exchange): Promise<Response> {
  const handler = createMcpHandler(() => buildServer(exchange, "result"), {
    legacy: "reject",
  });
  return handler.fetch(sdkRequest(exchange.request), {
    parsedBody: wireMessage(exchange.message, exchange.fault),
  });
}

/** Serves one message of an older revision. Nothing is kept between messages: there are no sessions. */
export async function serveLegacy(exchange: Exchange, revision: LegacyRevision): Promise<Response> {
  const inputErrors = PROTOCOL_ERROR_REVISIONS.includes(revision) ? "protocol" : "result";
  const server = buildServer(exchange, inputErrors);
  const transport = new WebStandardStreamableHTTPServerTransport({ enableJsonResponse: true });
  await server.connect(transport);
  const request = sdkRequest(exchange.request);
  // Checked by the caller; at `initialize` clients send what they would like.
  request.headers.delete("mcp-protocol-version");
  return transport.handleRequest(request, { parsedBody: wireMessage(exchange.message, exchange.fault) });
}

function buildServer({ message, context, fault }: Exchange, inputErrors: CallOptions["inputErrors"]): Server {
  const server = new Server(INFO, {
    capabilities: { tools: {} },
    instructions: INSTRUCTIONS,
    supportedProtocolVersions: [...LEGACY_REVISIONS],
    cacheHints: {
      "tools/list": { ttlMs: 300_000, cacheScope: "public" },
      "server/discover": { ttlMs: 3_600_000, cacheScope: "public" },
    },
  });
  server.setRequestHandler("tools/list", async () => ({ tools: [...LISTED_TOOLS] }));
  // Not `setRequestHandler`: for `tools/call` that passes arguments and results through schemas, which copy
  // objects and lose keys such as `__proto__`. The message's own parameters are used for the same reason.
  if (message.method === "tools/call" && context)
    server.fallbackRequestHandler = () =>
      callTool(message.params ?? {}, context, { inputErrors, ...(fault ? { fault } : {}) });
  return server;
}

/** The request as the SDK is to see it: with the `Accept` it wants, which real clients often do not send. */
function sdkRequest(request: Request): Request {
  const headers = new Headers(request.headers);
  headers.set("accept", "application/json, text/event-stream");
  headers.set("content-type", "application/json");
  return new Request(request.url, { method: "POST", headers, signal: request.signal });
}

/**
 * The message as the SDK is to see it: a tool's arguments are none of its business, and of a request whose
 * JSON is at fault it sees only what decides the revision.
 */
function wireMessage(message: Exchange["message"], fault: CallOptions["fault"]): JsonObject {
  const { kind: _, params, ...fields } = message;
  if (params === undefined) return { jsonrpc: "2.0", ...fields };
  return { jsonrpc: "2.0", ...fields, params: fault ? soundParams(params) : withoutArguments(params) };
}

function withoutArguments({ arguments: _, ...params }: JsonObject): JsonObject {
  return params;
}

function soundParams({ name, _meta }: JsonObject): JsonObject {
  const meta = isJsonObject(_meta) ? _meta : {};
  const version = meta[VERSION_KEY];
  return {
    ...(typeof name === "string" ? { name } : {}),
    _meta: {
      ...(typeof version === "string" ? { [VERSION_KEY]: version } : {}),
      ...(isJsonObject(meta[CAPABILITIES_KEY]) ? { [CAPABILITIES_KEY]: {} } : {}),
    },
  };
}
