import * as z from "zod";
import { accountId, agentId, projectId } from "../../protocol/ids.ts";
import type { AgentAuth, AuthFailure } from "../auth.ts";
import type { Env } from "../env.ts";
import { bearerToken } from "./bearer.ts";
import { isSecureOrigin, issuerOf, mcpResource } from "./issuer.ts";
import { expandScopes } from "./scopes.ts";
import { authorizationServer, oauthEnv } from "./server.ts";

const agentProps = z.object({ agent_id: agentId, account_id: accountId, projects: z.array(projectId) });

/**
 * The agent that a request to the MCP endpoint comes from, by its bearer token: one look-up in D1. Expired,
 * revoked, malformed and another resource's tokens are all `invalid`.
 */
export async function authenticateAgent(request: Request, env: Env): Promise<AgentAuth | AuthFailure> {
  const token = bearerToken(request);
  if (token === undefined) {
    const sent = request.headers.has("authorization");
    return sent
      ? { error: "invalid", description: "The Authorization header holds no bearer token" }
      : { error: "missing", description: "Sign in to use this tool" };
  }
  const invalid: AuthFailure = {
    error: "invalid",
    description: "The access token is expired, revoked or not for this server",
  };
  const issuer = issuerOf(request);
  if (!isSecureOrigin(issuer)) return invalid;
  const context = await authorizationServer(issuer).validateToken(mcpResource(issuer), token, oauthEnv(env));
  if (!context) return invalid;
  const props = agentProps.safeParse(context.props);
  if (!props.success) return invalid;
  return { ...props.data, client_id: context.clientId, scopes: expandScopes(context.scope) };
}
