import { isLoopbackHost } from "../oauth/issuer.ts";

/** Web sites whose pages may call the endpoint: the hosted clients that connect from a browser. */
const CLIENT_ORIGINS: readonly string[] = [
  "https://claude.ai",
  "https://claude.com",
  "https://chatgpt.com",
  "https://platform.openai.com",
];

const ALLOWED_HEADERS = [
  "Authorization",
  "Content-Type",
  "Accept",
  "MCP-Protocol-Version",
  "Mcp-Method",
  "Mcp-Name",
  "Mcp-Session-Id",
  "Last-Event-ID",
].join(", ");

/**
 * Whether the request was addressed to us. Over plain HTTP only a loopback name is: that is local
 * development, where a page that rebinds its own name to 127.0.0.1 must not get in. Over HTTPS the
 * certificate has settled it.
 */
export function isOurHost(request: Request): boolean {
  const url = new URL(request.url);
  if (url.protocol === "https:") return true;
  const host = request.headers.get("host");
  return isLoopbackHost(url.hostname) && (host === null || isLoopbackHost(hostnameOf(`http://${host}`)));
}

/** Whether the request comes from no page, or from a page that may call us. `null` is no such page. */
export function isAllowedOrigin(request: Request): boolean {
  const origin = request.headers.get("origin");
  if (origin === null) return true;
  const url = new URL(request.url);
  if (origin === url.origin || CLIENT_ORIGINS.includes(origin)) return true;
  return isLoopbackHost(url.hostname) && isLoopbackHost(hostnameOf(origin));
}

function hostnameOf(origin: string): string {
  return URL.canParse(origin) ? new URL(origin).hostname : "";
}

/** The answer to a browser's question before a call. */
export function preflight(request: Request): Response {
  const response = new Response(null, { status: 204, headers: { Allow: "POST, OPTIONS" } });
  if (request.headers.get("origin") !== null) {
    response.headers.set("Access-Control-Allow-Methods", "POST");
    response.headers.set("Access-Control-Allow-Headers", ALLOWED_HEADERS);
    response.headers.set("Access-Control-Max-Age", "86400");
  }
  return response;
}

/** Lets the calling page, whose origin was found to be allowed, read the answer. */
export function withCors(request: Request, response: Response): Response {
  const origin = request.headers.get("origin");
  if (origin === null) return response;
  const shared = new Response(response.body, response);
  shared.headers.set("Access-Control-Allow-Origin", origin);
  shared.headers.append("Vary", "Origin");
  shared.headers.set("Access-Control-Expose-Headers", "WWW-Authenticate, Mcp-Session-Id");
  return shared;
}
