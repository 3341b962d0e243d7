import { env } from "cloudflare:workers";
import { decodeProtectedHeader, exportJWK, generateKeyPair, importJWK, type JWK, SignJWT } from "jose";
import { afterEach, describe, expect, it, vi } from "vitest";
import { newSigningKeys } from "../../scripts/lib/signing-keys.ts";
import { LOGIN_CLIENT, RELAY_PATH } from "../../src/protocol/relay-api.ts";
import { authenticateAgent } from "../../src/worker/oauth/agent-token.ts";
import { authenticateDevice } from "../../src/worker/relay-api/device-token.ts";
import { workerWith } from "./support/forms.ts";
import {
  assertion,
  callWorker,
  connectAgent,
  deviceToken,
  deviceTokenRequest,
  newDeviceKey,
  newOwner,
  newProject,
  ORIGIN,
  pairDevice,
  pkce,
  registerDevice,
  type TestOwner,
  tokenRequest,
} from "./support/people.ts";

const api = (path: string, token: string, init: RequestInit = {}) =>
  callWorker(`${ORIGIN}${RELAY_PATH}${path}`, { ...init, headers: { authorization: `Bearer ${token}` } });
const withToken = (token: string) =>
  new Request(`${ORIGIN}${RELAY_PATH}/sync`, { headers: { authorization: `Bearer ${token}` } });
const errorOf = async (response: Response) => (await response.json<{ error: string }>()).error;
const moveClock = (ms: number) => vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + ms });

/** The relay's login flow up to its token. */
async function login(
  owner: TestOwner,
  thumbprint: string,
): Promise<{ location: URL; verifier: string; redirect_uri: string }> {
  const { verifier, challenge } = await pkce();
  const redirect_uri = "http://127.0.0.1:50123/callback";
  const url = new URL("/authorize", ORIGIN);
  url.search = new URLSearchParams({
    response_type: "code",
    client_id: LOGIN_CLIENT.client_id,
    redirect_uri,
    state: "s",
    code_challenge: challenge,
    code_challenge_method: "S256",
    scope: LOGIN_CLIENT.scope,
    device_name: "Work <b>laptop</b>",
    device_platform: "linux x64",
    device_thumbprint: thumbprint,
  }).toString();
  return { location: new URL(await owner.browser.approve(url.href)), verifier, redirect_uri };
}
async function loginToken(owner: TestOwner, thumbprint: string) {
  const { location, verifier, redirect_uri } = await login(owner, thumbprint);
  const response = await tokenRequest({
    grant_type: "authorization_code",
    client_id: LOGIN_CLIENT.client_id,
    code: location.searchParams.get("code") ?? "",
    redirect_uri,
    code_verifier: verifier,
  });
  return response.json<{ access_token: string; refresh_token?: string; expires_in: number }>();
}

afterEach(() => {
  vi.useRealTimers();
});

describe("pairing by an enrolment code", () => {
  it("gives the device every project of the account, and a token by assertion", async () => {
    const owner = await newOwner("Ada");
    const second = await newProject(owner, "Second");
    const device = await pairDevice(owner);
    expect(device.projects.map((project) => project.project_id)).toEqual([owner.project_id, second]);
    expect(await authenticateDevice(withToken(device.token), env)).toEqual({
      device_id: device.device_id,
      account_id: owner.account_id,
      projects: [owner.project_id, second],
      issued_at: expect.any(Number),
    });
    expect(await (await api("/projects", device.token)).json()).toEqual({
      projects: [
        { project_id: owner.project_id, name: "My laptop" },
        { project_id: second, name: "Second" },
      ],
    });
  });

  it("works once, for ten minutes, and of ten devices at once for one", async () => {
    const owner = await newOwner();
    const code = await owner.browser.enrolmentCode();
    const keys = await Promise.all(Array.from({ length: 10 }, newDeviceKey));
    const answers = await Promise.all(keys.map(({ jwk }) => registerDevice({ jwk, enrolment_code: code })));
    expect(answers.map((answer) => answer.status).sort()).toEqual([201, ...Array(9).fill(400)]);
    const late = await owner.browser.enrolmentCode();
    moveClock(601_000);
    const { jwk } = await newDeviceKey();
    expect(await errorOf(await registerDevice({ jwk, enrolment_code: late }))).toBe("enrolment_invalid");
  });

  it("takes the code as people type it", async () => {
    const owner = await newOwner();
    const code = await owner.browser.enrolmentCode();
    expect(code).toMatch(/^[0-9A-HJKMNP-TV-Z]{5}(?:-[0-9A-HJKMNP-TV-Z]{1,5}){5}$/);
    const { jwk } = await newDeviceKey();
    expect(
      (
        await registerDevice({
          jwk,
          enrolment_code: code.toLowerCase().replaceAll("-", " ").replaceAll("0", "o"),
        })
      ).status,
    ).toBe(201);
  });

  it("asked again with the same key and code after a lost answer gives the same device", async () => {
    const owner = await newOwner();
    const { jwk } = await newDeviceKey();
    const enrolment_code = await owner.browser.enrolmentCode();
    const first = await (await registerDevice({ jwk, enrolment_code })).json<{ device_id: string }>();
    const again = await registerDevice({ jwk, enrolment_code });
    expect(again.status).toBe(200);
    expect(await again.json()).toMatchObject({ device_id: first.device_id });
  });

  it("cannot take over a key that another account has, nor one that was removed", async () => {
    const owner = await newOwner();
    const stranger = await newOwner("Stranger");
    const { jwk } = await newDeviceKey();
    const { device_id } = await (
      await registerDevice({ jwk, enrolment_code: await owner.browser.enrolmentCode() })
    ).json<{ device_id: string }>();
    expect(
      (await registerDevice({ jwk, enrolment_code: await stranger.browser.enrolmentCode() })).status,
    ).toBe(400);
    await owner.browser.submit("/account/devices/remove", { device_id });
    expect((await registerDevice({ jwk, enrolment_code: await owner.browser.enrolmentCode() })).status).toBe(
      400,
    );
  });

  it("is not done with a sign-in code, a wrong code, or none", async () => {
    const { jwk } = await newDeviceKey();
    expect(await errorOf(await registerDevice({ jwk, enrolment_code: "AAAAA-AAAAA" }))).toBe(
      "enrolment_invalid",
    );
    expect(await errorOf(await registerDevice({ jwk }))).toBe("token_invalid");
  });

  it.each([
    [{ kty: "EC", crv: "P-384", x: "a".repeat(43), y: "a".repeat(43) }],
    [{ kty: "RSA", n: "x", e: "AQAB" }],
    [{ kty: "EC", crv: "P-256", x: "short", y: "a".repeat(43) }],
  ])("refuses the key %j and names the field", async (jwk) => {
    const response = await registerDevice({ jwk });
    expect(response.status).toBe(400);
    expect((await response.json<{ error_description: string }>()).error_description).toContain("public_jwk.");
  });
});

describe("pairing by the login flow", () => {
  it("shows the owner which laptop asks, and registers that key, again after a lost answer", async () => {
    const owner = await newOwner();
    const { jwk, key, thumbprint } = await newDeviceKey();
    const tokens = await loginToken(owner, thumbprint);
    expect(tokens.refresh_token).toBeUndefined();
    expect(tokens.expires_in).toBe(600);
    const response = await registerDevice(
      { jwk, name: "Work laptop" },
      { authorization: `Bearer ${tokens.access_token}` },
    );
    expect(response.status).toBe(201);
    const { device_id } = await response.json<{ device_id: string }>();
    expect(
      await authenticateDevice(withToken(await deviceToken({ device_id, key, thumbprint })), env),
    ).toMatchObject({ device_id });
    const again = await registerDevice({ jwk }, { authorization: `Bearer ${tokens.access_token}` });
    expect([again.status, await again.json()]).toEqual([200, expect.objectContaining({ device_id })]);
    const other = await newDeviceKey();
    expect(
      (await registerDevice({ jwk: other.jwk }, { authorization: `Bearer ${tokens.access_token}` })).status,
    ).toBe(400);
  });

  it("that showed no key is good for one", async () => {
    const owner = await newOwner();
    const { access_token } = await loginToken(owner, "");
    const keys = await Promise.all([newDeviceKey(), newDeviceKey(), newDeviceKey()]);
    const authorization = `Bearer ${access_token}`;
    const tries = await Promise.all(keys.map(({ jwk }) => registerDevice({ jwk }, { authorization })));
    const answers = tries.map((answer) => answer.status).sort();
    expect(answers).toEqual([201, 401, 401]);
  });

  it("refuses another key than the one the owner saw", async () => {
    const owner = await newOwner();
    const { thumbprint } = await newDeviceKey();
    const { access_token } = await loginToken(owner, thumbprint);
    const other = await newDeviceKey();
    expect(
      (await registerDevice({ jwk: other.jwk }, { authorization: `Bearer ${access_token}` })).status,
    ).toBe(400);
  });

  it("gives a token that is no agent's, as an agent's token registers no device", async () => {
    const owner = await newOwner();
    const { jwk, thumbprint } = await newDeviceKey();
    const { access_token } = await loginToken(owner, thumbprint);
    expect(await authenticateAgent(withToken(access_token), env)).toMatchObject({ error: "invalid" });
    const agent = await connectAgent(owner);
    expect((await registerDevice({ jwk }, { authorization: `Bearer ${agent.access_token}` })).status).toBe(
      401,
    );
  });

  it("answers only to a loopback address of the relay's path", async () => {
    const owner = await newOwner();
    for (const redirect of ["https://evil.example/callback", "http://127.0.0.1:1/elsewhere"]) {
      const url = new URLSearchParams({
        response_type: "code",
        client_id: LOGIN_CLIENT.client_id,
        redirect_uri: redirect,
        code_challenge: "a".repeat(43),
        code_challenge_method: "S256",
      });
      expect((await owner.browser.request(`/authorize?${url}`)).status).toBe(400);
    }
  });

  it("escapes what the laptop says of itself", async () => {
    const owner = await newOwner();
    const { challenge } = await pkce();
    const query = new URLSearchParams({
      response_type: "code",
      client_id: LOGIN_CLIENT.client_id,
      redirect_uri: "http://127.0.0.1:1/callback",
      code_challenge: challenge,
      code_challenge_method: "S256",
      device_name: "<img src=x onerror=alert(1)>\u202egnp.exe",
      device_platform: '"><script>',
      device_thumbprint: "<b>",
    });
    const page = await (await owner.browser.request(`/authorize?${query}`)).text();
    expect(page).not.toContain("<img");
    expect(page).not.toContain("<script>");
    expect(page).not.toContain("\u202e");
    expect(page).toContain("&lt;img src=x onerror=alert(1)&gt;gnp.exe");
  });
});

describe("assertions", () => {
  it("work once", async () => {
    const device = await pairDevice(await newOwner());
    const signed = await assertion(device);
    const answers = await Promise.all(Array.from({ length: 5 }, () => deviceTokenRequest(signed)));
    expect(answers.map((answer) => answer.status).sort()).toEqual([200, 401, 401, 401, 401]);
    // A network that repeats a request must not make the laptop believe that its key is refused.
    expect(await errorOf(await deviceTokenRequest(signed))).toBe("assertion_used");
  });

  it("work as a form too, as RFC 7523 has it", async () => {
    const device = await pairDevice(await newOwner());
    const response = await callWorker(`${ORIGIN}${RELAY_PATH}/token`, {
      method: "POST",
      headers: { "content-type": "application/x-www-form-urlencoded" },
      body: new URLSearchParams({
        grant_type: "urn:ietf:params:oauth:grant-type:jwt-bearer",
        assertion: await assertion(device),
      }).toString(),
    });
    expect(response.status).toBe(200);
    expect(response.headers.get("cache-control")).toBe("no-store");
    expect(await response.json()).toMatchObject({ token_type: "Bearer", expires_in: 900 });
  });

  it.each([
    ["another audience", { claims: { aud: `${ORIGIN}/token` } }],
    ["two audiences", { claims: { aud: [`${ORIGIN}${RELAY_PATH}/token`, "https://other.example"] } }],
    ["another issuer", { claims: { iss: `dev_${"0".repeat(32)}` } }],
    ["another subject", { claims: { sub: `dev_${"0".repeat(32)}` } }],
    ["no jti", { claims: { jti: undefined } }],
    ["no end", { claims: { exp: undefined } }],
    ["a foreign kid", { header: { kid: "A".repeat(43) } }],
    ["no kid", { header: { kid: undefined } }],
  ])("with %s are invalid", async (_what, options) => {
    const device = await pairDevice(await newOwner());
    const response = await deviceTokenRequest(await assertion(device, options));
    expect(response.status).toBe(401);
    expect(await response.json()).toMatchObject({
      error: "assertion_invalid",
      server_time: expect.any(Number),
    });
  });

  it.each([
    ["expired", { iat: -120, exp: -60 }],
    ["from the future", { iat: 3600, exp: 3660 }],
    ["good for too long", { iat: 0, exp: 3600 }],
  ])("that are %s say so, with the server's time", async (_what, { iat, exp }) => {
    const device = await pairDevice(await newOwner());
    const now = Math.floor(Date.now() / 1000);
    const response = await deviceTokenRequest(
      await assertion(device, { claims: { iat: now + iat, exp: now + exp } }),
    );
    expect(response.status).toBe(401);
    const body = await response.json<{ error: string; server_time: number }>();
    expect(body.error).toBe("clock_skew");
    expect(Math.abs(body.server_time - Date.now())).toBeLessThan(5_000);
  });

  it("signed by another key under the device's kid, unsigned, or with the public key as a secret are invalid", async () => {
    const device = await pairDevice(await newOwner());
    const other = await newDeviceKey();
    const now = Math.floor(Date.now() / 1000);
    const claims = {
      iss: device.device_id,
      sub: device.device_id,
      aud: `${ORIGIN}${RELAY_PATH}/token`,
      iat: now,
      exp: now + 60,
      jti: crypto.randomUUID(),
    };
    const base64url = (value: unknown) =>
      btoa(JSON.stringify(value)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
    const unsigned = `${base64url({ alg: "none", kid: device.thumbprint })}.${base64url(claims)}.`;
    const jwk = await env.DB.prepare("SELECT public_jwk FROM devices WHERE id = ?")
      .bind(device.device_id)
      .first<string>("public_jwk");
    const confused = await new SignJWT(claims)
      .setProtectedHeader({ alg: "HS256", kid: device.thumbprint })
      .sign(new TextEncoder().encode(jwk ?? ""));
    for (const signed of [
      await assertion({ ...device, key: other.key }),
      unsigned,
      confused,
      "x",
      "a.b.c",
      "",
    ])
      expect(await errorOf(await deviceTokenRequest(signed))).toBe("assertion_invalid");
  });

  it("of a removed device say so", async () => {
    const owner = await newOwner();
    const device = await pairDevice(owner);
    await owner.browser.submit("/account/devices/remove", { device_id: device.device_id });
    const response = await deviceTokenRequest(await assertion(device));
    expect(response.status).toBe(403);
    expect(await errorOf(response)).toBe("device_removed");
    expect((await api("/projects", device.token)).status).toBe(403);
  });

  it("tell the owner when the laptop was there, and with what", async () => {
    const owner = await newOwner();
    const device = await pairDevice(owner);
    await deviceTokenRequest(await assertion(device, { claims: { client_version: "9.8.7" } }));
    const page = await (await owner.browser.request("/account")).text();
    expect(page).toContain("9.8.7");
    expect(page).toContain(device.thumbprint);
  });
});

describe("device tokens", () => {
  it("are refused when expired, of another audience or issuer, another type, unsigned, or by a key that is not ours", async () => {
    const device = await pairDevice(await newOwner());
    const [jwk] = (JSON.parse(env.SIGNING_KEYS) as { keys: { kid: string }[] }).keys;
    if (!jwk) throw new Error("no key");
    const ours = await importJWK(jwk, "ES256");
    const stranger = await generateKeyPair("ES256");
    const now = Math.floor(Date.now() / 1000);
    const good = {
      account_id: `acc_${"0".repeat(32)}`,
      projects: [],
      iss: ORIGIN,
      aud: `${ORIGIN}${RELAY_PATH}`,
      sub: device.device_id,
      iat: now,
      exp: now + 900,
    };
    const sign = (
      claims: Record<string, unknown>,
      header: Record<string, unknown> = {},
      key: Parameters<SignJWT["sign"]>[0] = ours,
    ) =>
      new SignJWT({ ...good, ...claims })
        .setProtectedHeader({ alg: "ES256", typ: "at+jwt", kid: jwk.kid, ...header })
        .sign(key);
    expect(await authenticateDevice(withToken(await sign({})), env)).toMatchObject({
      device_id: device.device_id,
    });
    const wrong = [
      await sign({ exp: now - 1 }),
      await sign({ exp: undefined }),
      await sign({ aud: `${ORIGIN}/mcp` }),
      await sign({ iss: "https://other.example" }),
      await sign({ sub: "someone" }),
      await sign({}, { typ: "JWT" }),
      await sign({}, { kid: "other" }),
      await sign({}, {}, stranger.privateKey),
      await new SignJWT(good)
        .setProtectedHeader({ alg: "HS256", typ: "at+jwt", kid: jwk.kid })
        .sign(new TextEncoder().encode(JSON.stringify(await exportJWK(stranger.publicKey)))),
      await assertion(device),
      "x.y.z",
    ];
    for (const token of wrong)
      expect(await authenticateDevice(withToken(token), env)).toMatchObject({ error: "invalid" });
    expect(
      await authenticateDevice(new Request(`${ORIGIN}/x?access_token=${device.token}`), env),
    ).toMatchObject({ error: "missing" });
    moveClock(901_000);
    expect(await authenticateDevice(withToken(device.token), env)).toMatchObject({
      error: "invalid",
      description: "The token has expired",
    });
  });

  it("that are remembered still end at their time, at their address and with their keys", async () => {
    const device = await pairDevice(await newOwner());
    const there = new Request("https://other.example/x", {
      headers: { authorization: `Bearer ${device.token}` },
    });
    const { privateKey } = await generateKeyPair("ES256", { extractable: true });
    const otherKeys = {
      ...env,
      SIGNING_KEYS: JSON.stringify({ keys: [{ ...(await exportJWK(privateKey)), kid: "other" }] }),
    };
    for (let i = 0; i < 2; i++) {
      expect(await authenticateDevice(withToken(device.token), env)).toHaveProperty("device_id");
      expect(await authenticateDevice(there.clone(), env)).toMatchObject({ error: "invalid" });
      expect(await authenticateDevice(withToken(device.token), otherKeys)).toMatchObject({
        error: "invalid",
      });
    }
    expect(await authenticateDevice(withToken(device.token), env)).toHaveProperty("device_id");
    moveClock(901_000);
    expect(await authenticateDevice(withToken(device.token), env)).toMatchObject({
      error: "invalid",
      description: "The token has expired",
    });
  });

  it("need no database", async () => {
    const device = await pairDevice(await newOwner());
    const untouched = { ...env, DB: undefined as unknown as D1Database, PROJECT_QUEUE: undefined as never };
    expect(await authenticateDevice(withToken(device.token), untouched)).toMatchObject({
      device_id: device.device_id,
    });
  });
});

describe("a pairing call whose body does not fit", () => {
  const key = { kty: "EC", crv: "P-256", x: "a".repeat(43), y: "b".repeat(43) };
  const device = { name: "n", platform: "p", client_version: "1.2.3", public_jwk: key };
  const json = { "content-type": "application/json" };
  it.each<[string, string, string, Record<string, string>, string[]]>([
    ["/devices", "no JSON", "{", json, ["not JSON"]],
    [
      "/devices",
      "a name that is none",
      JSON.stringify({ ...device, name: 31337 }),
      json,
      ["name", "a number"],
    ],
    [
      "/devices",
      "half a key",
      JSON.stringify({ ...device, public_jwk: { ...key, y: "s3cret" } }),
      json,
      ["public_jwk.y", "a string of 6 characters"],
    ],
    ["/devices", "too deep a nesting", `${"[".repeat(300)}${"]".repeat(300)}`, json, ["deeper than 200"]],
    ["/token", "another grant type", '{"grant_type":"s3cret","assertion":"a"}', json, ["grant_type"]],
    [
      "/token",
      "a form without an assertion",
      "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&x=s3cret",
      { "content-type": "application/x-www-form-urlencoded" },
      ["assertion", "nothing"],
    ],
  ])(
    "%s with %s: names the field, the rule and the kind, not the content",
    async (path, _, body, headers, says) => {
      const response = await callWorker(`${ORIGIN}${RELAY_PATH}${path}`, { method: "POST", headers, body });
      expect(response.status).toBe(400);
      const answer = await response.json<{ error: string; error_description: string }>();
      expect(answer.error).toBe("invalid_request");
      for (const text of says) expect(answer.error_description).toContain(text);
      expect(answer.error_description).not.toMatch(/s3cret|31337/);
    },
  );

  it("is 400 for bytes that are no UTF-8, and 413 for more than 16 kB", async () => {
    const post = (body: BodyInit) =>
      callWorker(`${ORIGIN}${RELAY_PATH}/token`, { method: "POST", headers: json, body });
    const odd = await post(new Uint8Array([0x7b, 0xff, 0x7d]));
    expect([odd.status, (await odd.json<{ error_description: string }>()).error_description]).toEqual([
      400,
      "The request does not fit the relay API. The body is not UTF-8.",
    ]);
    const big = await post("x".repeat(16_385));
    expect([big.status, await errorOf(big)]).toEqual([413, "body_too_large"]);
  });
});

describe("a change of the signing keys", () => {
  it("signs with the new key, verifies the last one's tokens, and logs nobody out", async () => {
    const device = await pairDevice(await newOwner());
    const published = await (await callWorker(`${ORIGIN}/.well-known/jwks.json`)).json<{ keys: JWK[] }>();
    expect(JSON.stringify(published)).not.toContain('"d"');
    const rotated = workerWith({ SIGNING_KEYS: await newSigningKeys(published) });
    const projects = (token: string, worker: typeof fetch) =>
      worker(`${ORIGIN}${RELAY_PATH}/projects`, { headers: { authorization: `Bearer ${token}` } });
    expect((await projects(device.token, rotated)).status).toBe(200);

    const fresh = await rotated(`${ORIGIN}${RELAY_PATH}/token`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({
        grant_type: "urn:ietf:params:oauth:grant-type:jwt-bearer",
        assertion: await assertion(device),
      }),
    });
    const { access_token } = await fresh.json<{ access_token: string }>();
    expect((await projects(access_token, rotated)).status).toBe(200);
    expect(decodeProtectedHeader(access_token).kid).not.toBe(decodeProtectedHeader(device.token).kid);

    const again = (await (await rotated(`${ORIGIN}/.well-known/jwks.json`)).json()) as { keys: JWK[] };
    const twice = workerWith({ SIGNING_KEYS: await newSigningKeys(again) });
    expect((await projects(access_token, twice)).status).toBe(200);
    expect((await projects(device.token, twice)).status).toBe(401);
  });

  it.each(["", "x", "{}", '{"keys":[]}', '{"keys":[{"kty":"RSA"}]}'])(
    "to %j fails without quoting it",
    async (secret) => {
      const error = vi.spyOn(console, "error").mockImplementation(() => undefined);
      const response = await workerWith({ SIGNING_KEYS: secret })(`${ORIGIN}/.well-known/jwks.json`);
      expect(response.status).toBe(500);
      expect(String(error.mock.calls.at(-1)?.at(-1))).toContain("npm run keys");
      error.mockRestore();
    },
  );
});

describe("leaving", () => {
  it("removes the laptop on the server", async () => {
    const owner = await newOwner();
    const device = await pairDevice(owner);
    expect((await api("/devices/self", device.token, { method: "DELETE" })).status).toBe(204);
    expect(await errorOf(await api("/devices/self", device.token, { method: "DELETE" }))).toBe(
      "device_removed",
    );
    expect(await errorOf(await deviceTokenRequest(await assertion(device)))).toBe("device_removed");
  });
});
