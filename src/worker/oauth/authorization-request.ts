import {
  AuthorizationError,
  type AuthRequest,
  authorizationErrorRedirect,
  type OAuthHelpers,
} from "@cloudflare/workers-oauth-provider";
import { LOGIN_CLIENT } from "../../protocol/relay-api.ts";
import type { Scope } from "../../protocol/tools.ts";
import { ClientMetadataError } from "./client-metadata.ts";
import { canonicalResource, mcpResource, relayResource } from "./issuer.ts";
import { requestedScopes } from "./scopes.ts";

/** An authorization request that was found right. */
export interface Authorization {
  request: AuthRequest;
  clientName: string;
  scopes: Scope[];
  offline: boolean;
  /** The login of this project's own relay, not an agent's. */
  isDeviceLogin: boolean;
}

export type AuthorizationAnswer =
  | { kind: "ok"; authorization: Authorization }
  /** The client is told, at an address it registered. */
  | { kind: "redirect"; to: string }
  /** The person is told: there is no address to trust. */
  | { kind: "page"; status: 400 | 502; what: string };

const SINGLE = [
  "response_type",
  "client_id",
  "redirect_uri",
  "scope",
  "state",
  "code_challenge",
  "code_challenge_method",
];
const STATE_CHARACTERS = 4_096;

/** Reads and checks the parameters of `/authorize`: the client, where the answer goes, PKCE, the resource, the scopes. */
export async function readAuthorization(
  query: URLSearchParams,
  issuer: string,
  helpers: OAuthHelpers,
): Promise<AuthorizationAnswer> {
  if (SINGLE.some((name) => query.getAll(name).length > 1))
    return { kind: "page", status: 400, what: "The client's request names a parameter twice." };
  if ((query.get("state") ?? "").length > STATE_CHARACTERS)
    return { kind: "page", status: 400, what: `The client's state is over ${STATE_CHARACTERS} characters.` };
  try {
    const isDeviceLogin = query.get("client_id") === LOGIN_CLIENT.client_id;
    const params = withResource(query, issuer, isDeviceLogin);
    const request = await helpers.parseAuthRequest(new Request(`${issuer}/authorize?${params}`));
    const fail = (code: "invalid_request" | "invalid_scope", description: string): AuthorizationAnswer => ({
      kind: "redirect",
      to: authorizationErrorRedirect(request, code, description),
    });
    if (request.codeChallengeMethod !== "S256" || !/^[A-Za-z0-9_-]{43}$/.test(request.codeChallenge ?? ""))
      return fail("invalid_request", "PKCE with S256 is required");
    if (!isDeviceLogin && request.resource !== mcpResource(issuer))
      return fail("invalid_request", "This resource is not for agents");
    const asked = requestedScopes(isDeviceLogin ? [] : request.scope);
    if (!asked.ok) return fail("invalid_scope", "None of the scopes asked for exists");
    const client = await helpers.lookupClient(request.clientId);
    const { scopes, offline } = asked;
    const clientName = client?.clientName ?? request.clientId;
    return { kind: "ok", authorization: { request, clientName, scopes, offline, isDeviceLogin } };
  } catch (error) {
    if (error instanceof ClientMetadataError) return { kind: "page", status: 502, what: error.message };
    if (!(error instanceof AuthorizationError)) throw error;
    if (error.redirectTo !== undefined) return { kind: "redirect", to: error.redirectTo };
    return {
      kind: "page",
      status: 400,
      what: `The client's request cannot be served: ${error.description}.`,
    };
  }
}

/** The parameters with `resource` in its canonical spelling; a foreign one is left for the library to refuse. */
function withResource(query: URLSearchParams, issuer: string, isDeviceLogin: boolean): URLSearchParams {
  const params = new URLSearchParams(query);
  params.delete("resource");
  if (isDeviceLogin) {
    params.set("resource", relayResource(issuer));
    return params;
  }
  for (const value of new Set(query.getAll("resource").map((v) => canonicalResource(v, issuer) ?? v)))
    params.append("resource", value);
  return params;
}
