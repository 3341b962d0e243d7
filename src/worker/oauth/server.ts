import { OAuthAuthorizationServer, OAuthError } from "@cloudflare/workers-oauth-provider";
import { type Clock, systemClock } from "../../protocol/ports.ts";
import { LOGIN_CLIENT } from "../../protocol/relay-api.ts";
import { SCOPES } from "../../protocol/tools.ts";
import { agentProjectIds, touchAgent } from "../db/agents.ts";
import { database } from "../db/client.ts";
import type { Env } from "../env.ts";
import { clientSource } from "./clients.ts";
import { mcpResource, relayResource } from "./issuer.ts";
import { OAuthStore } from "./store.ts";

/** Lifetimes in seconds. A refresh token lives this long after its last use. */
const ACCESS_TOKEN = 3600;
const REFRESH_TOKEN = 30 * 24 * 3600;
const REGISTRATION = 90 * 24 * 3600;
const LOGIN_TOKEN = 600;

/** Every scope the server can grant. */
export const ALL_SCOPES: readonly string[] = [...SCOPES, "offline_access"];

/** What a grant carries for an agent. The device login's grants carry `account_id` alone. */
export interface AgentProps {
  agent_id: string;
  account_id: string;
  projects: string[];
}

/** What the library is bound to in place of a KV namespace. */
export interface OAuthEnv {
  OAUTH_KV: OAuthStore;
  DB: D1Database;
}

/** The library's view of this request. */
export function oauthEnv(env: Env, options: { mayFetchClients?: boolean; clock?: Clock } = {}): OAuthEnv {
  const clock = options.clock ?? systemClock;
  const clients = clientSource(
    { d1: env.DB, clock, fetcher: (input, init) => fetch(input, init) },
    options.mayFetchClients ?? false,
  );
  return { OAUTH_KV: new OAuthStore(env.DB, clock, clients), DB: env.DB };
}

/** The authorization server of one origin. Its settings are all its state. */
export function authorizationServer(issuer: string): OAuthAuthorizationServer<OAuthEnv> {
  return new OAuthAuthorizationServer<OAuthEnv>({
    issuer,
    resources: [mcpResource(issuer), relayResource(issuer)],
    defaultResource: mcpResource(issuer),
    authorizeEndpoint: "/authorize",
    tokenEndpoint: "/token",
    clientRegistrationEndpoint: "/register",
    accessTokenTTL: ACCESS_TOKEN,
    refreshTokenTTL: REFRESH_TOKEN,
    refreshTokenIdleTTL: REFRESH_TOKEN,
    clientRegistrationTTL: REGISTRATION,
    scopesSupported: [...ALL_SCOPES],
    // The answer says what was wrong; a log line for each would be noise anyone can make.
    onError: () => undefined,
    tokenExchangeCallback: async ({ clientId, props, env }) => {
      if (clientId === LOGIN_CLIENT.client_id)
        return { accessTokenTTL: LOGIN_TOKEN, refreshTokenTTL: 0, accessTokenProps: props };
      return { accessTokenProps: await currentProps(env.DB, props as AgentProps) };
    },
  });
}

/** The agent's projects as they are now; a revoked agent's grant ends. */
async function currentProps(d1: D1Database, props: AgentProps): Promise<AgentProps> {
  const db = database(d1);
  if (!(await touchAgent(db, props.agent_id, systemClock.now())))
    throw new OAuthError("invalid_grant", { description: "The agent was revoked" });
  return { ...props, projects: await agentProjectIds(db, props.agent_id) };
}
