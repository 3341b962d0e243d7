import { SCOPES, TOOLS } from "../../protocol/tools.ts";
import type { AgentAuth, AuthFailure } from "../auth.ts";
import { expandScopes } from "../oauth/scopes.ts";
import type { Message } from "./message.ts";

/** Methods that answer anyone: what the tools are is public (design section 6, "one door"). */
const PUBLIC_METHODS: readonly string[] = ["tools/list", "ping"];

/** Whether a message is answered without a token. */
export const isPublic = (message: Message): boolean =>
  message.kind === "request" && PUBLIC_METHODS.includes(message.method);

/** Why a request is turned away, in the terms of RFC 6750 section 3. */
export interface Challenge {
  status: 401 | 403;
  error: "invalid_token" | "insufficient_scope";
  description: string;
  scope: string;
  /** For a person or a model. */
  text: string;
}

/** The challenge to a request without a token, or with one that is not accepted. */
export function signInChallenge(failure: AuthFailure): Challenge {
  const missing = failure.error === "missing";
  return {
    status: 401,
    error: "invalid_token",
    description: missing ? "Sign in to use this server" : failure.description,
    scope: SCOPES.join(" "),
    text: missing ? "Sign-in required." : "Sign-in required: the access token was not accepted.",
  };
}

/**
 * The challenge to a tool call whose token lacks the tool's scope, or `undefined`. It asks for what was
 * granted and what is needed together, as not every client adds the two up.
 */
export function scopeChallenge(message: Message, auth: AgentAuth): Challenge | undefined {
  if (message.kind !== "request" || message.method !== "tools/call") return undefined;
  const tool = TOOLS.find((row) => row.name === message.params?.name);
  if (!tool || expandScopes(auth.scopes).includes(tool.scope)) return undefined;
  const scope = SCOPES.filter((s) => s === tool.scope || auth.scopes.includes(s)).join(" ");
  return {
    status: 403,
    error: "insufficient_scope",
    description: `${tool.name} needs the scope ${tool.scope}`,
    scope,
    text: `This connection may not call ${tool.name}: its owner has not granted ${tool.scope}.`,
  };
}

/** The value of `WWW-Authenticate`. The order and the quotes are what clients were seen to read. */
function headerValue(challenge: Challenge, resourceMetadata: string): string {
  const fields = {
    resource_metadata: resourceMetadata,
    error: challenge.error,
    error_description: challenge.description,
    scope: challenge.scope,
  };
  const quoted = Object.entries(fields).map(([name, value]) => `${name}="${value.replace(/["\\]/g, "")}"`);
  return `Bearer ${quoted.join(", ")}`;
}

/**
 * The answer to a message that is turned away. A tool call also gets a result that says so, which is where
 * ChatGPT looks (`_meta["mcp/www_authenticate"]`); everything else an error. `modern`: revision 2026-07-28.
 */
function challengeBody(message: Message, challenge: Challenge, header: string, modern: boolean): unknown {
  if (message.kind !== "request") return undefined;
  const { id } = message;
  const meta = { "mcp/www_authenticate": [header] };
  if (message.method !== "tools/call")
    return {
      jsonrpc: "2.0",
      id,
      error: { code: challenge.status, message: challenge.text, data: { _meta: meta } },
    };
  const content = [{ type: "text", text: challenge.text }];
  const structuredContent = { error_code: challenge.error, error: challenge.text };
  return {
    jsonrpc: "2.0",
    id,
    result: {
      ...(modern ? { resultType: "complete" } : {}),
      isError: true,
      content,
      structuredContent,
      _meta: meta,
    },
  };
}

/** The HTTP answer to a request that is turned away: one message, or a batch (then an array of answers). */
export function challengeResponse(
  request: Request,
  messages: Message | readonly Message[],
  challenge: Challenge,
  modern: boolean,
): Response {
  const resourceMetadata = `${new URL(request.url).origin}/.well-known/oauth-protected-resource/mcp`;
  const header = headerValue(challenge, resourceMetadata);
  const answer = (message: Message) => challengeBody(message, challenge, header, modern);
  const body = Array.isArray(messages)
    ? messages.map(answer).filter((a) => a !== undefined)
    : answer(messages as Message);
  return new Response(body === undefined ? null : JSON.stringify(body), {
    status: challenge.status,
    headers: {
      "WWW-Authenticate": header,
      ...(body === undefined ? {} : { "Content-Type": "application/json" }),
    },
  });
}
