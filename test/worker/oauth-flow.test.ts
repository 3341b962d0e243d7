import { env } from "cloudflare:workers";
import * as oauth from "oauth4webapi";
import { afterEach, describe, expect, it, vi } from "vitest";
import { authenticateAgent } from "../../src/worker/oauth/agent-token.ts";
import {
  callWorker,
  connectAgent,
  newOwner,
  newProject,
  ORIGIN,
  pkce,
  registerClient,
  tokenRequest,
} from "./support/people.ts";

const REDIRECT = "http://127.0.0.1:4711/callback";
const options = {
  [oauth.customFetch]: (url: string, init: object) => callWorker(url, init as RequestInit),
};
const bearer = (token: string, url = `${ORIGIN}/mcp`) =>
  new Request(url, { headers: { authorization: `Bearer ${token}` } });

/** An authorization request's address; `undefined` leaves a parameter out. */
async function authorizeUrl(clientId: string, changes: Record<string, string | undefined> = {}) {
  const { verifier, challenge } = await pkce();
  const params: Record<string, string | undefined> = {
    response_type: "code",
    client_id: clientId,
    redirect_uri: REDIRECT,
    scope: "osfoundry:read osfoundry:run",
    state: "xyz",
    code_challenge: challenge,
    code_challenge_method: "S256",
    resource: `${ORIGIN}/mcp`,
    ...changes,
  };
  const url = new URL("/authorize", ORIGIN);
  for (const [name, value] of Object.entries(params))
    if (value !== undefined) url.searchParams.set(name, value);
  return { url: url.href, verifier };
}

const codeOf = (location: string) => new URL(location).searchParams.get("code") ?? "";
const errorOf = (location: string) => new URL(location).searchParams.get("error");
const exchange = (clientId: string, code: string, verifier: string, more: Record<string, string> = {}) =>
  tokenRequest({
    grant_type: "authorization_code",
    client_id: clientId,
    code,
    redirect_uri: REDIRECT,
    code_verifier: verifier,
    ...more,
  });

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

describe("discovery", () => {
  it("publishes what RFC 8414 and MCP ask for, the issuer being the bare origin", async () => {
    const issuer = new URL(ORIGIN);
    const as = await oauth.processDiscoveryResponse(
      issuer,
      await oauth.discoveryRequest(issuer, { ...options, algorithm: "oauth2" }),
    );
    expect(as).toMatchObject({
      issuer: ORIGIN,
      authorization_endpoint: `${ORIGIN}/authorize`,
      token_endpoint: `${ORIGIN}/token`,
      registration_endpoint: `${ORIGIN}/register`,
      revocation_endpoint: `${ORIGIN}/revoke`,
      code_challenge_methods_supported: ["S256"],
      token_endpoint_auth_methods_supported: ["none"],
      client_id_metadata_document_supported: true,
      authorization_response_iss_parameter_supported: true,
      scopes_supported: ["osfoundry:read", "osfoundry:run", "offline_access"],
    });
  });

  it("publishes the protected resource at both addresses, without offline_access", async () => {
    for (const path of [
      "/.well-known/oauth-protected-resource",
      "/.well-known/oauth-protected-resource/mcp",
    ]) {
      const response = await callWorker(ORIGIN + path);
      expect(response.headers.get("access-control-allow-origin")).toBe("*");
      expect(await response.json()).toEqual({
        resource: `${ORIGIN}/mcp`,
        authorization_servers: [ORIGIN],
        scopes_supported: ["osfoundry:read", "osfoundry:run"],
        bearer_methods_supported: ["header"],
        resource_name: "Graph Relay",
      });
    }
  });

  it.each([
    "/.well-known/openid-configuration",
    "/.well-known/oauth-authorization-server/mcp",
    "/.well-known/x/y",
  ])("answers %s with 404 and JSON, never a page", async (path) => {
    const response = await callWorker(ORIGIN + path);
    expect(response.status).toBe(404);
    expect(response.headers.get("content-type")).toMatch(/^application\/json/);
  });
});

describe("browser clients", () => {
  it.each(["/token", "/register", "/revoke"])("of any origin may call %s, without cookies", async (path) => {
    const preflight = await callWorker(ORIGIN + path, {
      method: "OPTIONS",
      headers: {
        origin: "http://localhost:6274",
        "access-control-request-method": "POST",
        "access-control-request-headers": "content-type",
      },
    });
    expect(preflight.status).toBe(204);
    expect(preflight.headers.get("access-control-allow-origin")).toBe("*");
    expect(preflight.headers.get("access-control-allow-credentials")).toBeNull();
    const refused = await callWorker(ORIGIN + path, {
      method: "GET",
      headers: { origin: "http://localhost:6274" },
    });
    expect(refused.status).toBe(405);
    expect(refused.headers.get("allow")).toContain("POST");
  });

  it.each(["/sign-in", "/authorize", "/account"])(
    "of another origin get no leave to read %s",
    async (path) => {
      const response = await callWorker(ORIGIN + path, {
        redirect: "manual",
        headers: { origin: "https://evil.example" },
      });
      expect(response.headers.get("access-control-allow-origin")).toBeNull();
    },
  );
});

describe("registration", () => {
  const register = (body: unknown) =>
    callWorker(`${ORIGIN}/register`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });

  it("takes what real clients send, and makes every client a public one", async () => {
    const response = await register({
      client_name: "VS Code",
      redirect_uris: [
        "https://insiders.vscode.dev/redirect",
        "https://vscode.dev/redirect",
        "http://127.0.0.1/",
        "http://127.0.0.1:33418/",
        "cursor://anysphere.cursor-mcp/oauth/callback",
        "http://localhost:1/a",
        "http://localhost:1/b",
        "http://localhost:1/c",
      ],
      grant_types: ["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"],
      response_types: ["code"],
      token_endpoint_auth_method: "client_secret_post",
      application_type: "native",
      logo_uri: "not a url",
      x_unknown: { deep: [1] },
    });
    expect(response.status).toBe(201);
    expect(response.headers.get("cache-control")).toBe("no-store");
    const body = await response.json<Record<string, unknown>>();
    expect(body).toMatchObject({
      token_endpoint_auth_method: "none",
      grant_types: ["authorization_code", "refresh_token"],
    });
    expect(body).not.toHaveProperty("client_secret");
    expect(body.redirect_uris).toHaveLength(8);
  });

  it("gives the same client the same id, whatever free port it took", async () => {
    const name = `Client ${crypto.randomUUID()}`;
    const first = await registerClient("http://localhost:50001/callback", name);
    expect(await registerClient("http://localhost:50002/callback", name)).toBe(first);
    expect(await registerClient("http://localhost:50002/other", name)).not.toBe(first);
    expect(await registerClient("http://localhost:50001/callback", `${name}!`)).not.toBe(first);
  });

  it.each([
    ["javascript:alert(1)"],
    ["data:text/html,x"],
    ["http://evil.example/callback"],
    ["myapp://callback"],
    ["https://user:pw@evil.example/cb"],
    ["https://evil.example/cb#fragment"],
  ])("refuses a client whose only redirect is %s", async (uri) => {
    const response = await register({ client_name: "X", redirect_uris: [uri] });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: "invalid_client_metadata" });
  });

  it.each([
    [null],
    [[]],
    [{}],
    [{ redirect_uris: [] }],
    [{ redirect_uris: [1] }],
    [{ redirect_uris: Array(21).fill("https://a.example/") }],
  ])("refuses %j", async (body) => {
    expect((await register(body)).status).toBe(400);
  });

  it("refuses a body over 64 kB before reading it whole", async () => {
    expect(
      (await register({ redirect_uris: ["https://a.example/"], client_name: "x".repeat(70_000) })).status,
    ).toBe(413);
  });
});

describe("the whole flow, by an independent client", () => {
  it("registers, authorizes with PKCE and resource, and gets tokens that work", async () => {
    const owner = await newOwner();
    const issuer = new URL(ORIGIN);
    const as = await oauth.processDiscoveryResponse(
      issuer,
      await oauth.discoveryRequest(issuer, { ...options, algorithm: "oauth2" }),
    );
    const client = await oauth.processDynamicClientRegistrationResponse(
      await oauth.dynamicClientRegistrationRequest(
        as,
        { redirect_uris: [REDIRECT], client_name: "Independent" },
        options,
      ),
    );
    const verifier = oauth.generateRandomCodeVerifier();
    const state = oauth.generateRandomState();
    const url = new URL(as.authorization_endpoint ?? "");
    url.search = new URLSearchParams({
      response_type: "code",
      client_id: client.client_id,
      redirect_uri: REDIRECT,
      scope: "osfoundry:run offline_access",
      state,
      code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
      code_challenge_method: "S256",
      resource: `${ORIGIN}/mcp`,
    }).toString();
    // The library checks `iss` and `state` here.
    const params = oauth.validateAuthResponse(
      as,
      client,
      new URL(await owner.browser.approve(url.href)),
      state,
    );
    const response = await oauth.authorizationCodeGrantRequest(
      as,
      client,
      oauth.None(),
      params,
      REDIRECT,
      verifier,
      {
        ...options,
        additionalParameters: { resource: `${ORIGIN}/mcp` },
      },
    );
    expect(response.headers.get("cache-control")).toBe("no-store");
    const tokens = await oauth.processAuthorizationCodeResponse(as, client, response);
    expect(tokens.scope?.split(" ").sort()).toEqual(["offline_access", "osfoundry:read", "osfoundry:run"]);
    expect(await authenticateAgent(bearer(tokens.access_token), env)).toMatchObject({
      account_id: owner.account_id,
      scopes: ["osfoundry:read", "osfoundry:run"],
    });

    const refreshed = await oauth.processRefreshTokenResponse(
      as,
      client,
      await oauth.refreshTokenGrantRequest(as, client, oauth.None(), tokens.refresh_token ?? "", options),
    );
    expect(await authenticateAgent(bearer(refreshed.access_token), env)).toMatchObject({
      account_id: owner.account_id,
    });

    await oauth.processRevocationResponse(
      await oauth.revocationRequest(as, client, oauth.None(), refreshed.refresh_token ?? "", options),
    );
    for (const token of [tokens.access_token, refreshed.access_token])
      expect(await authenticateAgent(bearer(token), env)).toMatchObject({ error: "invalid" });
  });
});

describe("authorization requests", () => {
  it("sends state and iss with a refusal by the owner", async () => {
    const owner = await newOwner();
    const { url } = await authorizeUrl(await registerClient(REDIRECT, "Denied"));
    const location = new URL(await owner.browser.deny(url));
    expect(location.origin + location.pathname).toBe(REDIRECT);
    expect(Object.fromEntries(location.searchParams)).toMatchObject({
      error: "access_denied",
      state: "xyz",
      iss: ORIGIN,
    });
  });

  it.each([
    ["no PKCE", { code_challenge: undefined, code_challenge_method: undefined }, "invalid_request"],
    ["plain PKCE", { code_challenge_method: "plain" }, "invalid_request"],
    ["a challenge without its method", { code_challenge_method: undefined }, "invalid_request"],
    ["a method without a challenge", { code_challenge: undefined }, "invalid_request"],
    ["a challenge of the wrong length", { code_challenge: "abc" }, "invalid_request"],
    ["another resource", { resource: "https://other.example/mcp" }, "invalid_target"],
    ["a longer path of the resource", { resource: `${ORIGIN}/mcp-other` }, "invalid_target"],
    [
      "the relay API as resource",
      { resource: `${ORIGIN}/external-assistants/graph-relays` },
      "invalid_request",
    ],
    ["only unknown scopes", { scope: "admin" }, "invalid_scope"],
    ["the implicit flow", { response_type: "token" }, "unsupported_response_type"],
  ])("refuses %s, with iss", async (_what, changes, error) => {
    const owner = await newOwner();
    const { url } = await authorizeUrl(await registerClient(REDIRECT, "Wrong"), changes);
    const location = await owner.browser.approve(url);
    expect(errorOf(location)).toBe(error);
    expect(new URL(location).searchParams.get("iss")).toBe(ORIGIN);
    expect(codeOf(location)).toBe("");
  });

  it.each([
    ["an unregistered address", { redirect_uri: "https://evil.example/callback" }],
    ["another path on loopback", { redirect_uri: "http://127.0.0.1:4711/other" }],
    ["another loopback host", { redirect_uri: "http://localhost:4711/callback" }],
    ["an unknown client", { client_id: "nobody" }],
    ["no client", { client_id: undefined }],
    ["script", { redirect_uri: "javascript:alert(1)" }],
  ])("never redirects to %s", async (_what, changes) => {
    const owner = await newOwner();
    const { url } = await authorizeUrl(await registerClient(REDIRECT, "Redirects"), changes);
    const parsed = new URL(url);
    const response = await owner.browser.request(parsed.pathname + parsed.search);
    expect(response.status).toBe(400);
    expect(response.headers.get("location")).toBeNull();
  });

  it("sends nothing to a private scheme, even one that the client listed beside others", async () => {
    const owner = await newOwner();
    const response = await callWorker(`${ORIGIN}/register`, {
      method: "POST",
      body: JSON.stringify({
        client_name: "Cursor",
        redirect_uris: [REDIRECT, "cursor://anysphere.cursor-mcp/oauth/callback"],
      }),
    });
    const { client_id } = await response.json<{ client_id: string }>();
    const { url } = await authorizeUrl(client_id, {
      redirect_uri: "cursor://anysphere.cursor-mcp/oauth/callback",
    });
    expect((await owner.browser.request(new URL(url).pathname + new URL(url).search)).status).toBe(400);
    expect(errorOf(await owner.browser.approve((await authorizeUrl(client_id)).url))).toBeNull();
  });

  it("takes any port on loopback", async () => {
    const owner = await newOwner();
    const clientId = await registerClient("http://localhost/callback", `Ports ${crypto.randomUUID()}`);
    const redirect_uri = "http://localhost:61234/callback";
    const { url, verifier } = await authorizeUrl(clientId, { redirect_uri });
    const code = codeOf(await owner.browser.approve(url));
    const response = await exchange(clientId, code, verifier, { redirect_uri });
    expect(response.status).toBe(200);
  });

  it.each([
    [undefined],
    [ORIGIN],
    [`${ORIGIN}/`],
    [`${ORIGIN}/mcp/`],
    ["HTTPS://Relay.Example.COM/mcp"],
    ["https://relay.example.com:443/mcp"],
  ])("takes resource %s for its own, and binds the token to the canonical one", async (resource) => {
    const owner = await newOwner();
    const clientId = await registerClient(REDIRECT, "Resources");
    const { url, verifier } = await authorizeUrl(clientId, { resource });
    const response = await exchange(
      clientId,
      codeOf(await owner.browser.approve(url)),
      verifier,
      resource === undefined ? {} : { resource },
    );
    const body = await response.json<{ access_token: string; resource: string }>();
    expect(body.resource).toBe(`${ORIGIN}/mcp`);
    expect(await authenticateAgent(bearer(body.access_token), env)).toMatchObject({
      account_id: owner.account_id,
    });
  });

  it("asks for all scopes when none is named, and never for a scope that was not", async () => {
    const owner = await newOwner();
    const all = await connectAgent(owner, { scope: "" });
    expect(all.scope).toBe("osfoundry:read osfoundry:run");
    const read = await connectAgent(owner, {
      scope: "osfoundry:read unknown",
      scopes: ["osfoundry:read", "osfoundry:run"],
    });
    expect(read.scope).toBe("osfoundry:read");
  });

  it("gives a refresh token with or without offline_access, which is granted to who asks and is no permission", async () => {
    const owner = await newOwner();
    for (const [scope, granted] of [
      ["osfoundry:read", "osfoundry:read"],
      ["osfoundry:read offline_access", "osfoundry:read offline_access"],
      // Asked for alone it is as if nothing was: everything is offered to the owner.
      ["offline_access", "osfoundry:read osfoundry:run offline_access"],
    ] as const) {
      const agent = await connectAgent(owner, { scope });
      expect(agent.scope).toBe(granted);
      const refreshed = await tokenRequest({
        grant_type: "refresh_token",
        refresh_token: agent.refresh_token,
        client_id: agent.client_id,
      });
      const tokens = await refreshed.json<{ access_token: string; scope: string }>();
      expect(tokens.scope).toBe(granted);
      expect(await authenticateAgent(bearer(tokens.access_token), env)).toMatchObject({
        scopes: granted.split(" ").filter((name) => name !== "offline_access"),
      });
    }
    const page = await owner.browser.request(
      new URL(
        (
          await authorizeUrl(await registerClient(REDIRECT, "Off"), {
            scope: "osfoundry:read offline_access",
          })
        ).url,
      ).href.slice(ORIGIN.length),
    );
    expect(await page.text()).not.toContain('value="offline_access"');
  });

  it("gives only what the owner left ticked, and nothing without a project", async () => {
    const owner = await newOwner();
    const other = await newProject(owner, "Other");
    const agent = await connectAgent(owner, { scopes: ["osfoundry:read"], projectIds: [other] });
    expect(await authenticateAgent(bearer(agent.access_token), env)).toMatchObject({
      scopes: ["osfoundry:read"],
      projects: [other],
    });
    await expect(connectAgent(owner, { projectIds: [] })).rejects.toThrow(/Tick at least one project/);
  });

  it("cannot be used for another account's project", async () => {
    const owner = await newOwner();
    const stranger = await newOwner("Stranger");
    await expect(connectAgent(owner, { projectIds: [stranger.project_id] })).rejects.toThrow(
      /Tick at least one/,
    );
    const agent = await connectAgent(owner, { projectIds: [owner.project_id, stranger.project_id] });
    expect(await authenticateAgent(bearer(agent.access_token), env)).toMatchObject({
      projects: [owner.project_id],
    });
  });

  it("asks for sign-in first, and makes no request for a stranger", async () => {
    const fetched = vi.spyOn(globalThis, "fetch");
    const { url } = await authorizeUrl("https://client.example/metadata.json");
    const response = await callWorker(url, { redirect: "manual" });
    expect(response.status).toBe(303);
    expect(response.headers.get("location")).toMatch(/^\/sign-in\?return_to=%2Fauthorize%3F/);
    expect(fetched).not.toHaveBeenCalled();
  });
});

describe("codes", () => {
  async function freshCode() {
    const owner = await newOwner();
    const clientId = await registerClient(REDIRECT, "Codes");
    const { url, verifier } = await authorizeUrl(clientId);
    return { clientId, verifier, code: codeOf(await owner.browser.approve(url)) };
  }

  it("are exchanged once, of ten at the same time", async () => {
    const { clientId, verifier, code } = await freshCode();
    const answers = await Promise.all(Array.from({ length: 10 }, () => exchange(clientId, code, verifier)));
    expect(answers.filter((answer) => answer.status === 200)).toHaveLength(1);
  });

  it("end the grant when they are used again", async () => {
    const { clientId, verifier, code } = await freshCode();
    const { access_token } = await (await exchange(clientId, code, verifier)).json<{
      access_token: string;
    }>();
    expect((await exchange(clientId, code, verifier)).status).toBe(400);
    expect(await authenticateAgent(bearer(access_token), env)).toMatchObject({ error: "invalid" });
  });

  it("live for a minute", async () => {
    const { clientId, verifier, code } = await freshCode();
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 61_000 });
    expect(await (await exchange(clientId, code, verifier)).json()).toMatchObject({ error: "invalid_grant" });
  });

  it("are nothing to another client, to another verifier, or without one", async () => {
    const { clientId, verifier, code } = await freshCode();
    const other = await registerClient(REDIRECT, `Thief ${crypto.randomUUID()}`);
    expect(await (await exchange(other, code, verifier)).json()).toMatchObject({ error: "invalid_grant" });
    expect(await (await exchange(clientId, code, (await pkce()).verifier)).json()).toMatchObject({
      error: "invalid_grant",
    });
    expect(
      (
        await tokenRequest({
          grant_type: "authorization_code",
          client_id: clientId,
          code,
          redirect_uri: REDIRECT,
        })
      ).status,
    ).toBe(400);
    expect(
      await (
        await exchange(clientId, code, verifier, { redirect_uri: "http://127.0.0.1:9/callback" })
      ).json(),
    ).toMatchObject({ error: "invalid_grant" });
    expect(
      await (await exchange(clientId, code, verifier, { resource: "https://other.example/mcp" })).json(),
    ).toMatchObject({ error: "invalid_target" });
    // None of that has used it up.
    expect((await exchange(clientId, code, verifier)).status).toBe(200);
  });

  it("are for 401 invalid_client when the client is gone, so that it registers again", async () => {
    const { clientId, verifier, code } = await freshCode();
    await env.DB.prepare("DELETE FROM oauth_store WHERE key = ?").bind(`client:${clientId}`).run();
    const response = await exchange(clientId, code, verifier);
    expect(response.status).toBe(401);
    expect(await response.json()).toMatchObject({ error: "invalid_client" });
  });
});

describe("access tokens", () => {
  it("are refused when missing, malformed, expired, in the address, or of another origin", async () => {
    const owner = await newOwner();
    const { access_token } = await connectAgent(owner);
    expect(await authenticateAgent(new Request(`${ORIGIN}/mcp`), env)).toMatchObject({ error: "missing" });
    expect(
      await authenticateAgent(new Request(`${ORIGIN}/mcp?access_token=${access_token}`), env),
    ).toMatchObject({ error: "missing" });
    for (const wrong of [
      "x",
      "a:b:c",
      `${access_token}x`,
      access_token.slice(0, -1),
      "eyJhbGciOiJub25lIn0.e30.",
    ])
      expect(await authenticateAgent(bearer(wrong), env)).toMatchObject({ error: "invalid" });
    expect(
      await authenticateAgent(
        new Request(`${ORIGIN}/mcp`, { headers: { authorization: "Basic eDp5" } }),
        env,
      ),
    ).toMatchObject({ error: "invalid" });
    expect(await authenticateAgent(bearer(access_token, "https://other.example.com/mcp"), env)).toMatchObject(
      { error: "invalid" },
    );
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 3_601_000 });
    expect(await authenticateAgent(bearer(access_token), env)).toMatchObject({ error: "invalid" });
  });

  it("end with the grant that is revoked, and only for the client they belong to", async () => {
    const owner = await newOwner();
    const agent = await connectAgent(owner);
    const revoke = (client_id: string) =>
      callWorker(`${ORIGIN}/revoke`, {
        method: "POST",
        headers: { "content-type": "application/x-www-form-urlencoded" },
        body: new URLSearchParams({ token: agent.refresh_token, client_id }).toString(),
      });
    await revoke(await registerClient(REDIRECT, `Other ${crypto.randomUUID()}`));
    expect(await authenticateAgent(bearer(agent.access_token), env)).toMatchObject({
      agent_id: agent.agent_id,
    });
    expect((await revoke(agent.client_id)).status).toBe(200);
    expect(await authenticateAgent(bearer(agent.access_token), env)).toMatchObject({ error: "invalid" });
  });
});

describe("connecting again", () => {
  it("is the same agent, keeps the time of projects that stay, and leaves another installation signed in", async () => {
    const owner = await newOwner();
    const first = await connectAgent(owner);
    const connectedAt = () =>
      env.DB.prepare("SELECT connected_at FROM agent_projects WHERE agent_id = ? AND project_id = ?")
        .bind(first.agent_id, owner.project_id)
        .first<number>("connected_at");
    const before = await connectedAt();
    const added = await newProject(owner, "Added");
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 5_000 });
    const again = await connectAgent(owner, { clientId: first.client_id });
    expect(again.agent_id).toBe(first.agent_id);
    expect(await connectedAt()).toBe(before);
    expect(await authenticateAgent(bearer(again.access_token), env)).toMatchObject({
      projects: [owner.project_id, added],
    });
    expect(await authenticateAgent(bearer(first.access_token), env)).toMatchObject({
      agent_id: first.agent_id,
    });
  });

  it("with less takes what was more", async () => {
    const owner = await newOwner();
    const first = await connectAgent(owner);
    const again = await connectAgent(owner, { clientId: first.client_id, scope: "osfoundry:read" });
    expect(await authenticateAgent(bearer(first.access_token), env)).toMatchObject({ error: "invalid" });
    expect(await authenticateAgent(bearer(again.access_token), env)).toMatchObject({
      scopes: ["osfoundry:read"],
    });
  });

  it("with more is the step-up: the wider grant works", async () => {
    const owner = await newOwner();
    const first = await connectAgent(owner, { scope: "osfoundry:read" });
    const again = await connectAgent(owner, {
      clientId: first.client_id,
      scope: "osfoundry:read osfoundry:run",
    });
    expect(await authenticateAgent(bearer(again.access_token), env)).toMatchObject({
      agent_id: first.agent_id,
      scopes: ["osfoundry:read", "osfoundry:run"],
    });
  });
});

describe("clients that publish a metadata document", () => {
  const ID = "https://client.example/oauth/metadata.json";
  const document = (changes: Record<string, unknown> = {}) => ({
    client_id: ID,
    client_name: "Published client",
    redirect_uris: ["http://127.0.0.1/callback", "https://client.example/cb"],
    token_endpoint_auth_method: "private_key_jwt",
    ...changes,
  });
  const serve = (body: unknown, init: ResponseInit = {}) =>
    vi
      .spyOn(globalThis, "fetch")
      .mockImplementation(async () =>
        Response.json(body, { headers: { "cache-control": "max-age=600" }, ...init }),
      );

  it("are known by its address, verified by its host, and asked once while it is fresh", async () => {
    const fetched = serve(document());
    const owner = await newOwner();
    const { url, verifier } = await authorizeUrl(ID);
    const page = await (await owner.browser.request(new URL(url).pathname + new URL(url).search)).text();
    expect(page).toContain("Published client");
    expect(page).toContain("Published by <strong>client.example</strong>");
    const response = await exchange(ID, codeOf(await owner.browser.approve(url)), verifier);
    expect(response.status).toBe(200);
    expect(fetched).toHaveBeenCalledTimes(1);
    expect(fetched.mock.calls[0]?.[1]).toMatchObject({ redirect: "manual" });
  });

  it("stay known while their host fails", async () => {
    serve(document());
    const owner = await newOwner();
    await connectAgent(owner, { clientId: ID });
    vi.restoreAllMocks();
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 3_600_000 });
    serve("<html>", { status: 503 });
    expect((await connectAgent(owner, { clientId: ID })).client_id).toBe(ID);
  });

  it.each([
    ["answers with another client's document", document({ client_id: "https://client.example/other" }), {}],
    ["has no redirects", document({ redirect_uris: [] }), {}],
    ["has no name", document({ client_name: " " }), {}],
    ["holds a secret", document({ client_secret: "x" }), {}],
    [
      "answers with a redirect",
      document(),
      { status: 302, headers: { location: "http://169.254.169.254/" } },
    ],
    ["answers with a page", document(), { headers: { "content-type": "text/html" } }],
    ["is over 5 kB", document({ padding: "x".repeat(6_000) }), {}],
    ["is an array", [], {}],
  ])("are refused with 502 when the document %s", async (_what, body, init) => {
    serve(body, init);
    const owner = await newOwner();
    const id = `https://bad-${crypto.randomUUID()}.example.com/doc`;
    const { url } = await authorizeUrl(id);
    vi.restoreAllMocks();
    serve(
      typeof body === "object" && "client_id" in body && body.client_id === ID
        ? { ...body, client_id: id }
        : body,
      init,
    );
    const response = await owner.browser.request(new URL(url).pathname + new URL(url).search);
    expect(response.status).toBe(502);
  });

  it.each([
    "https://127.0.0.1/doc",
    "https://169.254.169.254/latest",
    "https://[::1]/doc",
    "https://[fd00::1]/doc",
    "https://localhost/doc",
    "https://router.local/doc",
    "https://db.internal/doc",
    "https://2130706433/doc",
    "https://0x7f.1/doc",
    "https://intranet/doc",
    "https://client.example:8443/doc",
    "https://user@client.example/doc",
    "https://client.example/a/../doc",
    "https://client.example/",
    "https://client.example/doc#x",
  ])("are never fetched from %s", async (id) => {
    const fetched = serve(document({ client_id: id }));
    const owner = await newOwner();
    const { url } = await authorizeUrl(id);
    const response = await owner.browser.request(new URL(url).pathname + new URL(url).search);
    expect(response.status).toBe(502);
    expect(fetched).not.toHaveBeenCalled();
  });

  it("are refused when they take more than three seconds", async () => {
    const timeout = vi.spyOn(AbortSignal, "timeout").mockImplementation(() => AbortSignal.abort());
    vi.spyOn(globalThis, "fetch").mockImplementation(
      (_input, init) =>
        new Promise((_resolve, reject) => (init?.signal?.aborted ? reject(init.signal.reason) : undefined)),
    );
    const owner = await newOwner();
    const { url } = await authorizeUrl(`https://slow-${crypto.randomUUID()}.example.com/doc`);
    const response = await owner.browser.request(new URL(url).pathname + new URL(url).search);
    expect(response.status).toBe(502);
    expect(timeout).toHaveBeenCalledWith(3_000);
  });

  it("make the token endpoint ask nobody", async () => {
    const fetched = serve(document({ client_id: "https://never.example.com/doc" }));
    const response = await exchange("https://never.example.com/doc", "a:b:c", "v".repeat(43));
    expect(response.status).toBe(401);
    expect(fetched).not.toHaveBeenCalled();
  });
});
