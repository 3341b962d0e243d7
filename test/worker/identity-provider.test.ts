import { env } from "cloudflare:workers";
import { exportJWK, generateKeyPair, type JWTPayload, SignJWT } from "jose";
import { afterEach, describe, expect, it, vi } from "vitest";
import { OwnerBrowser } from "../../scripts/lib/owner-browser.ts";
import { alertOf, postFrom, workerWith } from "./support/forms.ts";
import { newOwner, ORIGIN } from "./support/people.ts";

// The operator's identity provider, played by the test: its documents and tokens come through a stand-in for fetch.

const ISSUER = "https://login.example.org";
const CALLBACK = `${ORIGIN}/sign-in/provider/callback`;
const settings = { OIDC_ISSUER: ISSUER, OIDC_CLIENT_ID: "graph-relay", OIDC_CLIENT_SECRET: "s3cret" };
const openSettings = { ...settings, SIGNUP_MODE: "open" };

interface Play {
  /** What the ID token says instead of the truth. */
  claims?: JWTPayload;
  configuration?: Record<string, unknown>;
  alg?: "HS256";
  foreignKey?: boolean;
  tokenStatus?: number;
}

/** Plays the provider: answers the Worker's requests, and the browser's with a code. */
async function playProvider(play: Play = {}) {
  const pair = await generateKeyPair("ES256");
  const stranger = await generateKeyPair("ES256");
  const requests: URLSearchParams[] = [];
  let nonce = "";
  const idToken = async () => {
    const claims = { sub: "person-1", name: "Ada L.", nonce, ...play.claims };
    const jwt = new SignJWT(claims).setIssuedAt();
    if (!("iss" in claims)) jwt.setIssuer(ISSUER);
    if (!("aud" in claims)) jwt.setAudience("graph-relay");
    if (!("exp" in claims)) jwt.setExpirationTime("5m");
    if (play.alg === "HS256")
      return jwt.setProtectedHeader({ alg: "HS256" }).sign(new TextEncoder().encode("s3cret"));
    return jwt
      .setProtectedHeader({ alg: "ES256", kid: "k" })
      .sign(play.foreignKey ? stranger.privateKey : pair.privateKey);
  };
  const fetched = vi.spyOn(globalThis, "fetch").mockImplementation(async (input, init) => {
    const url = String(input);
    if (url === `${ISSUER}/.well-known/openid-configuration`)
      return Response.json({
        issuer: ISSUER,
        authorization_endpoint: `${ISSUER}/authorize`,
        token_endpoint: `${ISSUER}/token`,
        jwks_uri: `${ISSUER}/keys`,
        ...play.configuration,
      });
    if (url === `${ISSUER}/keys`)
      return Response.json({ keys: [{ ...(await exportJWK(pair.publicKey)), kid: "k", alg: "ES256" }] });
    if (url === `${ISSUER}/token`) {
      requests.push(new URLSearchParams(String(init?.body)));
      return Response.json({ id_token: await idToken() }, { status: play.tokenStatus ?? 200 });
    }
    return new Response("not the provider's", { status: 404 });
  });
  /** The person signs in there: where the browser is sent. */
  const signInThere = (location: string | null): URL => {
    const asked = new URL(location ?? "");
    nonce = asked.searchParams.get("nonce") ?? "";
    const back = new URL(asked.searchParams.get("redirect_uri") ?? "");
    back.searchParams.set("code", "the-code");
    back.searchParams.set("state", asked.searchParams.get("state") ?? "");
    return back;
  };
  return { signInThere, requests, fetched };
}

const begin = async (browser: OwnerBrowser, page = "/sign-in", path = "/sign-in/provider") =>
  (await postFrom(browser, page, path, { return_to: "/account" })).headers.get("location");
const come = (browser: OwnerBrowser, back: URL) => browser.request(back.pathname + back.search);

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

describe("signing in through the provider", () => {
  it("makes an account where sign-up is open, with PKCE, state and nonce, and opens it again the next time", async () => {
    const subject = crypto.randomUUID();
    const { signInThere, requests } = await playProvider({ claims: { sub: subject } });
    const browser = new OwnerBrowser(ORIGIN, workerWith(openSettings));
    const location = await begin(browser);
    const asked = new URL(location ?? "").searchParams;
    expect(Object.fromEntries(asked)).toMatchObject({
      response_type: "code",
      client_id: "graph-relay",
      redirect_uri: CALLBACK,
      code_challenge_method: "S256",
    });
    for (const secret of ["state", "nonce", "code_challenge"])
      expect(asked.get(secret)?.length).toBeGreaterThanOrEqual(43);
    expect((await come(browser, signInThere(location))).headers.get("location")).toBe("/account");
    expect(requests[0]?.get("code_verifier")?.length).toBeGreaterThanOrEqual(43);
    expect(await (await browser.request("/account")).text()).toContain("Ada L.");

    const again = new OwnerBrowser(ORIGIN, workerWith(settings));
    await come(again, signInThere(await begin(again)));
    const activity = await (await again.request("/account/activity")).text();
    expect(activity).toContain("Account made with the identity provider");
    expect(activity).toContain("Signed in with the identity provider");
    const rows = await env.DB.prepare("SELECT count(*) AS n FROM identities WHERE subject = ?")
      .bind(subject)
      .first("n");
    expect(rows).toBe(1);
  });

  it("makes no account by invitation, but opens one that was linked", async () => {
    const subject = crypto.randomUUID();
    const { signInThere } = await playProvider({ claims: { sub: subject } });
    const stranger = new OwnerBrowser(ORIGIN, workerWith(settings));
    const refused = await come(stranger, signInThere(await begin(stranger)));
    expect([refused.status, alertOf(await refused.text())]).toEqual([
      400,
      expect.stringContaining("No account here"),
    ]);

    const owner = await newOwner("Linked owner");
    const browser = new OwnerBrowser(ORIGIN, workerWith(settings));
    browser.takeCookies(owner.browser);
    expect(
      (await come(browser, signInThere(await begin(browser, "/account", "/account/provider")))).status,
    ).toBe(303);
    await come(stranger, signInThere(await begin(stranger)));
    expect(await (await stranger.request("/account")).text()).toContain("Linked owner");
    await postFrom(browser, "/account", "/account/provider/remove", { issuer: ISSUER });
    const gone = new OwnerBrowser(ORIGIN, workerWith(settings));
    expect((await come(gone, signInThere(await begin(gone)))).status).toBe(400);
  });

  it.each<[string, Play]>([
    ["signed by another key", { foreignKey: true }],
    ["signed with the client's secret", { alg: "HS256" }],
    ["of another issuer", { claims: { iss: "https://evil.example" } }],
    ["for another client", { claims: { aud: "other" } }],
    [
      "for several, of which this is not the party",
      { claims: { aud: ["graph-relay", "other"], azp: "other" } },
    ],
    ["to another nonce", { claims: { nonce: "other" } }],
    ["that has expired", { claims: { exp: 1 } }],
    ["of nobody", { claims: { sub: "" } }],
    ["that is not there", { tokenStatus: 400 }],
    ["from a configuration of another issuer", { configuration: { issuer: "https://evil.example" } }],
  ])("refuses an ID token %s", async (_what, play) => {
    const { signInThere } = await playProvider(play);
    const browser = new OwnerBrowser(ORIGIN, workerWith(openSettings));
    const answer = await postFrom(browser, "/sign-in", "/sign-in/provider");
    const location = answer.headers.get("location");
    const end = location === null ? answer : await come(browser, signInThere(location));
    expect(end.status).toBe(400);
    expect((await browser.request("/account")).status).toBe(303);
  });

  it("refuses an answer to another browser, a second time, too late, of another provider, or without a code", async () => {
    const { signInThere } = await playProvider();
    const worker = workerWith(openSettings);
    const browser = new OwnerBrowser(ORIGIN, worker);
    const back = signInThere(await begin(browser));
    expect((await come(new OwnerBrowser(ORIGIN, worker), back)).status).toBe(400);
    expect((await come(browser, back)).status).toBe(303);
    expect((await come(browser, back)).status).toBe(400);
    for (const change of [{ iss: "https://evil.example" }, { code: "" }, { state: "" }]) {
      const other = new OwnerBrowser(ORIGIN, worker);
      const address = signInThere(await begin(other));
      for (const [name, value] of Object.entries(change)) address.searchParams.set(name, value);
      expect((await come(other, address)).status).toBe(400);
    }
    const slow = new OwnerBrowser(ORIGIN, worker);
    const late = signInThere(await begin(slow));
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 5 * 60_000 + 1_000 });
    expect((await come(slow, late)).status).toBe(400);
  });

  it("links nobody to an account that was signed out of meanwhile, nor one person to two accounts", async () => {
    const { signInThere } = await playProvider({ claims: { sub: crypto.randomUUID() } });
    const worker = workerWith(settings);
    const linking = async (name: string) => {
      const browser = new OwnerBrowser(ORIGIN, worker);
      browser.takeCookies((await newOwner(name)).browser);
      return { browser, back: signInThere(await begin(browser, "/account", "/account/provider")) };
    };
    const left = await linking("Left");
    await postFrom(left.browser, "/account", "/sign-out");
    expect((await come(left.browser, left.back)).status).toBe(400);
    const first = await linking("First");
    expect((await come(first.browser, first.back)).status).toBe(303);
    const second = await linking("Second");
    expect((await come(second.browser, second.back)).status).toBe(400);
  });

  it("is not there where no provider is configured", async () => {
    const browser = new OwnerBrowser(ORIGIN, workerWith({}));
    expect(await (await browser.request("/sign-in")).text()).not.toContain("/sign-in/provider");
    expect((await postFrom(browser, "/sign-in", "/sign-in/provider")).status).toBe(404);
  });

  it("lets the sign-in form lead to the provider, which browsers hold to the page's policy", async () => {
    const policy = async (settings: object) =>
      (await new OwnerBrowser(ORIGIN, workerWith(settings)).request("/sign-in")).headers.get(
        "content-security-policy",
      );
    expect(await policy(settings)).toContain("form-action 'self' https:;");
    expect(await policy({})).toContain("form-action 'self';");
  });
});
