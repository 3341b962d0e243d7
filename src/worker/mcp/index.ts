import { isJsonContentType } from "@modelcontextprotocol/server";
import { Hono } from "hono";
import { findJsonFault } from "../../protocol/json.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { systemClock, systemRandom } from "../../protocol/ports.ts";
import { readBodyText } from "../body.ts";
import { boundQueues } from "../bound-queues.ts";
import type { Env } from "../env.ts";
import { authenticateAgent } from "../oauth/agent-token.ts";
import { Call, type McpDeps } from "./call.ts";
import { isAllowedOrigin, isOurHost, preflight, withCors } from "./http.ts";
import { CODES, errorResponse } from "./message.ts";

/** The MCP endpoint, `/mcp`: every served revision at one address, no state between requests. */
export function createMcpRoutes(deps: McpDeps): Hono<{ Bindings: Env }> {
  const app = new Hono<{ Bindings: Env }>();
  app.all("/mcp", async (c) => {
    const request = c.req.raw;
    if (!isOurHost(request) || !isAllowedOrigin(request))
      return errorResponse(403, CODES.invalidRequest, "This Host or Origin may not call the endpoint.", null);
    return withCors(request, await handle(request, c.env, deps));
  });
  return app;
}

async function handle(request: Request, env: Env, deps: McpDeps): Promise<Response> {
  if (request.method === "OPTIONS") return preflight(request);
  if (request.method !== "POST") {
    const refusal = errorResponse(
      405,
      CODES.invalidRequest,
      "Method not allowed: only POST is served here.",
      null,
    );
    refusal.headers.set("Allow", "POST");
    return refusal;
  }
  if (!isAcceptedType(request.headers.get("content-type")))
    return errorResponse(415, CODES.invalidRequest, "Content-Type must be application/json.", null);
  const read = await readBodyText(request, LIMITS.mcpBodyBytes);
  if (!read.ok)
    return read.error === "too_large"
      ? errorResponse(413, CODES.invalidRequest, `The body is over ${LIMITS.mcpBodyBytes} bytes.`, null)
      : errorResponse(400, CODES.parseError, "Parse error: the body is not UTF-8.", null);
  const fault = findJsonFault(read.text);
  let body: unknown;
  try {
    body = JSON.parse(read.text);
  } catch {
    return errorResponse(400, CODES.parseError, "Parse error: the body is not JSON.", null);
  }
  return new Call(request, env, deps, fault).serve(body);
}

/** Clients are seen to send no type, or `application/octet-stream`; the body then decides. */
const isAcceptedType = (type: string | null): boolean =>
  type === null || isJsonContentType(type) || type.startsWith("application/octet-stream");

/** The endpoint as it is deployed. */
export const mcpRoutes = createMcpRoutes({
  authenticate: authenticateAgent,
  queues: (env) => boundQueues(env, systemRandom),
  clock: systemClock,
  random: systemRandom,
});
