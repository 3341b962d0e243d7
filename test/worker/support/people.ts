import { env, exports } from "cloudflare:workers";
import { calculateJwkThumbprint, exportJWK, generateKeyPair, type JWK, SignJWT } from "jose";
import { OwnerBrowser } from "../../../scripts/lib/owner-browser.ts";
import { ownerLink } from "../../../scripts/lib/owner-link.ts";
import { systemClock, systemRandom } from "../../../src/protocol/ports.ts";
import { publicJwk, RELAY_PATH, type RegisterResponse } from "../../../src/protocol/relay-api.ts";

// Owners, agents and devices, each made the way a real one comes to be: no table is written by hand but
// by the operator's own command.

/** Where the tests' endpoint is. */
export const ORIGIN = "https://relay.example.com";

/** The Worker, called without a network; each call from an address of its own unless it names one. */
export const callWorker: typeof fetch = (input, init) => {
  const request = new Request(input, init);
  if (!request.headers.has(ADDRESS)) request.headers.set(ADDRESS, newAddress());
  return exports.default.fetch(request);
};

/** The header in which Cloudflare tells the caller's address. */
export const ADDRESS = "cf-connecting-ip";
const newAddress = (): string => `10.${crypto.getRandomValues(new Uint8Array(3)).join(".")}`;

export interface TestOwner {
  account_id: string;
  browser: OwnerBrowser;
  /** The first project of the account. */
  project_id: string;
}

/** A new account whose owner is signed in. */
export async function newOwner(name = "Test owner", origin = ORIGIN): Promise<TestOwner> {
  const link = await ownerLink({ name }, { clock: systemClock, random: systemRandom });
  await env.DB.batch(link.sql.map((statement) => env.DB.prepare(statement)));
  const browser = new OwnerBrowser(origin, callWorker);
  await browser.signIn(link.code);
  const project_id = await env.DB.prepare("SELECT id FROM projects WHERE account_id = ?")
    .bind(link.account_id)
    .first<string>("id");
  if (project_id === null) throw new Error("the new account has no project");
  return { account_id: link.account_id, browser, project_id };
}

/** Makes another project through the account page. */
export async function newProject(owner: TestOwner, name: string): Promise<string> {
  await owner.browser.submit("/account/projects", { name });
  const id = await env.DB.prepare(
    "SELECT id FROM projects WHERE account_id = ? AND name = ? ORDER BY created_at DESC",
  )
    .bind(owner.account_id, name)
    .first<string>("id");
  if (id === null) throw new Error("the project was not made");
  return id;
}

export interface TestAgent {
  client_id: string;
  agent_id: string;
  access_token: string;
  refresh_token: string;
  scope: string;
}

export interface AgentOptions {
  clientName?: string;
  /** Left out: registers a new client. */
  clientId?: string;
  redirectUri?: string;
  scope?: string;
  projectIds?: string[];
  /** The scopes the owner leaves ticked; left out: all that were asked for. */
  scopes?: string[];
  origin?: string;
}

/** A client, registered or known, that the owner has connected: its tokens. */
export async function connectAgent(owner: TestOwner, options: AgentOptions = {}): Promise<TestAgent> {
  const origin = options.origin ?? ORIGIN;
  const redirectUri = options.redirectUri ?? "http://127.0.0.1:4711/callback";
  const clientId =
    options.clientId ??
    (await registerClient(redirectUri, options.clientName ?? `Agent ${crypto.randomUUID()}`, origin));
  const { verifier, challenge } = await pkce();
  const url = new URL("/authorize", origin);
  url.search = new URLSearchParams({
    response_type: "code",
    client_id: clientId,
    redirect_uri: redirectUri,
    scope: options.scope ?? "osfoundry:read osfoundry:run",
    state: "test-state",
    code_challenge: challenge,
    code_challenge_method: "S256",
    resource: `${origin}/mcp`,
  }).toString();
  const location = await owner.browser.approve(url.href, {
    ...(options.projectIds === undefined ? {} : { projectIds: options.projectIds }),
    ...(options.scopes === undefined ? {} : { scopes: options.scopes }),
  });
  const code = new URL(location).searchParams.get("code");
  if (code === null) throw new Error(`no code in ${location}`);
  const tokens = await tokenRequest(
    {
      grant_type: "authorization_code",
      code,
      redirect_uri: redirectUri,
      client_id: clientId,
      code_verifier: verifier,
    },
    origin,
  );
  const body = await tokens.json<{ access_token: string; refresh_token: string; scope: string }>();
  if (tokens.status !== 200) throw new Error(`no tokens: ${JSON.stringify(body)}`);
  const agent_id = await env.DB.prepare("SELECT id FROM agents WHERE account_id = ? AND client_id = ?")
    .bind(owner.account_id, clientId)
    .first<string>("id");
  if (agent_id === null) throw new Error("the agent has no row");
  return {
    client_id: clientId,
    agent_id,
    access_token: body.access_token,
    refresh_token: body.refresh_token,
    scope: body.scope,
  };
}

/** Registers a public client. */
export async function registerClient(
  redirectUri: string,
  clientName: string,
  origin = ORIGIN,
): Promise<string> {
  const response = await callWorker(`${origin}/register`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ client_name: clientName, redirect_uris: [redirectUri] }),
  });
  return (await response.json<{ client_id: string }>()).client_id;
}

/** One request to the token endpoint. */
export const tokenRequest = (fields: Record<string, string>, origin = ORIGIN): Promise<Response> =>
  callWorker(`${origin}/token`, {
    method: "POST",
    headers: { "content-type": "application/x-www-form-urlencoded" },
    body: new URLSearchParams(fields).toString(),
  });

/** A PKCE verifier and its S256 challenge. */
export async function pkce(): Promise<{ verifier: string; challenge: string }> {
  const base64url = (bytes: Uint8Array) => bytes.toBase64({ alphabet: "base64url", omitPadding: true });
  const verifier = base64url(crypto.getRandomValues(new Uint8Array(32)));
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier));
  return { verifier, challenge: base64url(new Uint8Array(digest)) };
}

export interface TestDevice {
  device_id: string;
  /** The access token of the relay API. */
  token: string;
  key: CryptoKey;
  thumbprint: string;
  projects: { project_id: string; name: string }[];
}

/** A key pair as a relay makes one. */
export async function newDeviceKey(): Promise<{ key: CryptoKey; jwk: JWK; thumbprint: string }> {
  const { privateKey, publicKey } = await generateKeyPair("ES256");
  const jwk = publicJwk.parse(await exportJWK(publicKey));
  return { key: privateKey as CryptoKey, jwk, thumbprint: await calculateJwkThumbprint(jwk) };
}

/** Registers a device's key. */
export const registerDevice = (
  fields: { jwk: JWK; name?: string; enrolment_code?: string },
  headers: Record<string, string> = {},
  origin = ORIGIN,
): Promise<Response> =>
  callWorker(`${origin}${RELAY_PATH}/devices`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify({
      name: fields.name ?? "Test laptop",
      platform: "linux",
      client_version: "0.1.0",
      public_jwk: fields.jwk,
      ...(fields.enrolment_code === undefined ? {} : { enrolment_code: fields.enrolment_code }),
    }),
  });

/** A laptop paired by an enrolment code, with a token. */
export async function pairDevice(
  owner: TestOwner,
  name = "Test laptop",
  origin = ORIGIN,
): Promise<TestDevice> {
  const { key, jwk, thumbprint } = await newDeviceKey();
  const response = await registerDevice(
    { jwk, name, enrolment_code: await owner.browser.enrolmentCode() },
    {},
    origin,
  );
  const body = await response.json<RegisterResponse>();
  if (response.status !== 201) throw new Error(`the device was refused: ${JSON.stringify(body)}`);
  const device = { device_id: body.device_id, key, thumbprint, projects: body.projects };
  return { ...device, token: await deviceToken(device, origin) };
}

/** A device's assertion; `claims` and `header` change what is signed. */
export function assertion(
  device: { device_id: string; key: CryptoKey; thumbprint: string },
  options: { origin?: string; claims?: Record<string, unknown>; header?: Record<string, unknown> } = {},
): Promise<string> {
  const now = Math.floor(Date.now() / 1000);
  return new SignJWT({
    iss: device.device_id,
    sub: device.device_id,
    aud: `${options.origin ?? ORIGIN}${RELAY_PATH}/token`,
    iat: now,
    exp: now + 60,
    jti: crypto.randomUUID(),
    ...options.claims,
  })
    .setProtectedHeader({ alg: "ES256", kid: device.thumbprint, ...options.header })
    .sign(device.key);
}

/** One request for a device's token. */
export const deviceTokenRequest = (signed: string, origin = ORIGIN): Promise<Response> =>
  callWorker(`${origin}${RELAY_PATH}/token`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ grant_type: "urn:ietf:params:oauth:grant-type:jwt-bearer", assertion: signed }),
  });

/** A new access token for a device, by an assertion. */
export async function deviceToken(
  device: { device_id: string; key: CryptoKey; thumbprint: string },
  origin = ORIGIN,
): Promise<string> {
  const response = await deviceTokenRequest(await assertion(device, { origin }), origin);
  const body = await response.json<{ access_token?: string }>();
  if (body.access_token === undefined) throw new Error(`no device token: ${JSON.stringify(body)}`);
  return body.access_token;
}
