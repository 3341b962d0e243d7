import type { JsonFault } from "../../protocol/json.ts";
import type { Clock, RandomSource } from "../../protocol/ports.ts";
import { deliverAccess } from "../access.ts";
import type { AgentAuth, AuthFailure } from "../auth.ts";
import type { Env } from "../env.ts";
import type { Queues } from "../queues.ts";
import { type Challenge, challengeResponse, isPublic, scopeChallenge, signInChallenge } from "./challenge.ts";
import type { ToolContext } from "./context.ts";
import { CODES, echoableId, errorResponse, faultText, type Message, readMessage } from "./message.ts";
import {
  type Exchange,
  isLegacy,
  LEGACY_REVISIONS,
  type LegacyRevision,
  serveLegacy,
  serveModern,
} from "./serve.ts";

/** Messages in one array (revision 2025-03-26 alone has arrays). */
const MAX_BATCH = 20;
const VERSION_HEADER = "mcp-protocol-version";

/** What the endpoint needs from outside. */
export interface McpDeps {
  authenticate(request: Request, env: Env): Promise<AgentAuth | AuthFailure>;
  queues(env: Env): Queues;
  clock: Clock;
  random: RandomSource;
}

/** One request on its way from a parsed body to its answer. */
export class Call {
  private readonly request: Request;
  private readonly env: Env;
  private readonly deps: McpDeps;
  private readonly fault: JsonFault | undefined;

  constructor(request: Request, env: Env, deps: McpDeps, fault: JsonFault | undefined) {
    this.request = request;
    this.env = env;
    this.deps = deps;
    this.fault = fault;
  }

  async serve(body: unknown): Promise<Response> {
    if (Array.isArray(body)) return this.serveBatch(body);
    const message = readMessage(body);
    if (!message)
      return errorResponse(400, CODES.invalidRequest, "Not a JSON-RPC 2.0 message.", echoableId(body));
    const gate = await this.gate([message]);
    if ("status" in gate) {
      const modern = message.kind === "request" && !(await isLegacy(this.exchange(message)));
      return challengeResponse(this.request, message, gate, modern);
    }
    // A client answers a server's requests; we make none.
    if (message.kind === "response") return new Response(null, { status: 202 });
    return this.serveMessage(this.exchange(message, gate.auth));
  }

  private async serveBatch(elements: readonly unknown[]): Promise<Response> {
    const header = this.request.headers.get(VERSION_HEADER);
    if (header !== null && header !== "2025-03-26")
      return errorResponse(400, CODES.invalidRequest, `Revision ${header} has no JSON-RPC batches.`, null);
    if (elements.length === 0 || elements.length > MAX_BATCH)
      return errorResponse(400, CODES.invalidRequest, `A batch holds 1 to ${MAX_BATCH} messages.`, null);
    const messages = elements.map(readMessage);
    const valid = messages.filter((message) => message !== undefined);
    const gate = await this.gate(valid);
    if ("status" in gate) return challengeResponse(this.request, valid, gate, false);
    const answers = await Promise.all(
      messages.map((message, i) => this.batchAnswer(message, elements[i], gate.auth)),
    );
    const bodies = answers.filter((answer) => answer !== undefined);
    return bodies.length === 0 ? new Response(null, { status: 202 }) : Response.json(bodies);
  }

  private async batchAnswer(
    message: Message | undefined,
    element: unknown,
    auth?: AgentAuth,
  ): Promise<unknown> {
    if (!message)
      return errorResponse(
        400,
        CODES.invalidRequest,
        "Not a JSON-RPC 2.0 message.",
        echoableId(element),
      ).json();
    if (message.kind === "response") return undefined;
    if (message.kind === "request" && message.method === "initialize")
      return errorResponse(
        400,
        CODES.invalidRequest,
        "initialize may not be part of a batch.",
        message.id,
      ).json();
    const response = await this.serveMessage(this.exchange(message, auth));
    return response.status === 202 ? undefined : response.json();
  }

  private async serveMessage(exchange: Exchange): Promise<Response> {
    const { message } = exchange;
    // A tool call is told of it as of any other input that does not fit.
    if (this.fault && message.method !== "tools/call")
      return errorResponse(
        400,
        CODES.invalidRequest,
        faultText(this.fault),
        message.kind === "request" ? message.id : null,
      );
    if (!(await isLegacy(exchange))) return serveModern(exchange);
    const header = this.request.headers.get(VERSION_HEADER);
    const revision = header === null ? "2025-03-26" : LEGACY_REVISIONS.find((r) => r === header);
    if (!revision && message.method !== "initialize")
      return errorResponse(
        400,
        CODES.invalidRequest,
        `MCP-Protocol-Version ${header} is not served; ${[...LEGACY_REVISIONS, "2026-07-28"].join(", ")} are.`,
        message.kind === "request" ? message.id : null,
      );
    return serveLegacy(exchange, revision ?? ("2025-11-25" satisfies LegacyRevision));
  }

  /**
   * The one door: who may pass, or why not. A token that was sent is checked in any case, so that a client
   * whose token has died learns it from whatever it asks.
   */
  private async gate(messages: readonly Message[]): Promise<{ auth?: AgentAuth } | Challenge> {
    const sent = this.request.headers.has("authorization");
    if (!sent && messages.length > 0 && messages.every(isPublic)) return {};
    const auth = await this.deps.authenticate(this.request, this.env);
    if ("error" in auth) return signInChallenge(auth);
    for (const message of messages) {
      const challenge = scopeChallenge(message, auth);
      if (challenge) return challenge;
    }
    return { auth };
  }

  private exchange(message: Exchange["message"], auth?: AgentAuth): Exchange {
    return {
      request: this.request,
      message,
      ...(auth ? { context: this.context(auth) } : {}),
      ...(this.fault ? { fault: this.fault } : {}),
    };
  }

  private context(auth: AgentAuth): ToolContext {
    const { clock, random } = this.deps;
    return {
      auth,
      db: this.env.DB,
      queues: this.deps.queues(this.env),
      clock,
      random,
      deliverAccess: (projectIds) => deliverAccess(this.env, projectIds),
    };
  }
}
