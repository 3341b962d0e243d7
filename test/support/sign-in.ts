import { createHash, randomBytes } from "node:crypto";
import type { TestEndpoint } from "./endpoint.ts";

const REDIRECT = "http://127.0.0.1:33418/callback";

/** A client's own registration and tokens, kept in memory, with the owner's browser at hand. */
export interface SignedIn {
  client_id: string;
  access_token: string;
  refresh_token: string;
}

/**
 * Signs an agent in the way any OAuth client does: registration, consent in the owner's browser, code,
 * token. `scope` is what is asked for.
 */
export async function signInAgent(
  endpoint: TestEndpoint,
  { name = "Test agent", scope = "osfoundry:read osfoundry:run" }: { name?: string; scope?: string } = {},
): Promise<SignedIn> {
  const client_id = await registerClient(endpoint, name, REDIRECT);
  const verifier = randomBytes(32).toString("base64url");
  const authorize = new URL("/authorize", endpoint.url);
  authorize.search = new URLSearchParams({
    response_type: "code",
    client_id,
    redirect_uri: REDIRECT,
    scope,
    state: "s",
    resource: `${endpoint.url}/mcp`,
    code_challenge: createHash("sha256").update(verifier).digest("base64url"),
    code_challenge_method: "S256",
  }).toString();
  const redirected = new URL(await endpoint.owner.approve(authorize.href));
  const code = redirected.searchParams.get("code");
  if (code === null) throw new Error(`The consent gave no code: ${redirected.search}`);
  const response = await fetch(`${endpoint.url}/token`, {
    method: "POST",
    body: new URLSearchParams({
      grant_type: "authorization_code",
      client_id,
      redirect_uri: REDIRECT,
      code,
      code_verifier: verifier,
      resource: `${endpoint.url}/mcp`,
    }),
  });
  if (!response.ok) throw new Error(`No token: ${response.status} ${await response.text()}`);
  const tokens = (await response.json()) as { access_token: string; refresh_token: string };
  return { client_id, ...tokens };
}

/** Registers a public client (RFC 7591); the answer is its id. */
export async function registerClient(
  endpoint: TestEndpoint,
  name: string,
  redirect: string,
): Promise<string> {
  const response = await fetch(`${endpoint.url}/register`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      client_name: name,
      redirect_uris: [redirect],
      token_endpoint_auth_method: "none",
    }),
  });
  if (!response.ok) throw new Error(`Registration answered ${response.status}: ${await response.text()}`);
  return ((await response.json()) as { client_id: string }).client_id;
}
