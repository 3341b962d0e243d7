import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { OwnerBrowser } from "../../scripts/lib/owner-browser.ts";
import { invitation } from "../../scripts/lib/owner-link.ts";
import { systemClock, systemRandom } from "../../src/protocol/ports.ts";
import { Authenticator, type Wrong } from "./support/authenticator.ts";
import { alertOf, csrfOf, post, postFrom, workerWith } from "./support/forms.ts";
import { callWorker, newOwner, ORIGIN } from "./support/people.ts";

const moveClock = (ms: number) => vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + ms });
async function newInvitation() {
  const made = await invitation({ clock: systemClock, random: systemRandom });
  await env.DB.batch(made.sql.map((sql) => env.DB.prepare(sql)));
  return made.code;
}

/** One passkey form from its page to its end. */
async function ceremony(
  browser: OwnerBrowser,
  authenticator: Authenticator,
  form: { page: string; path: string; kind: "create" | "get"; fields?: Record<string, string> },
  wrong: Wrong = {},
): Promise<Response> {
  const optionsPath = `${form.path}/options`;
  const answer = await postFrom(browser, form.page, optionsPath, form.fields);
  if (answer.status !== 200) return answer;
  const options = await answer.json();
  const credential =
    form.kind === "create"
      ? await authenticator.create(options as never, wrong)
      : await authenticator.get(options as never, wrong);
  return postFrom(browser, form.page, form.path, { ...form.fields, credential });
}
const SIGN_IN = { page: "/sign-in", path: "/sign-in/passkey", kind: "get" } as const;
const SIGN_UP = (code: string, name = "Ada") =>
  ({ page: "/sign-up", path: "/sign-up", kind: "create", fields: { name, code } }) as const;
const ADD = {
  page: "/account",
  path: "/account/passkeys",
  kind: "create",
  fields: { name: "Phone" },
} as const;

async function signedUp() {
  const browser = new OwnerBrowser(ORIGIN, callWorker);
  const authenticator = new Authenticator(ORIGIN);
  const response = await ceremony(browser, authenticator, SIGN_UP(await newInvitation()));
  expect(response.status).toBe(303);
  return { browser, authenticator };
}

afterEach(() => {
  vi.useRealTimers();
});

describe("signing up", () => {
  it("with an invitation and a passkey makes an account with a first project, signed in", async () => {
    const { browser } = await signedUp();
    const page = await (await browser.request("/account")).text();
    expect(page).toContain("Ada");
    expect(page).toContain("My laptop");
    expect(page).toContain("First passkey");
    expect(await (await browser.request("/account/activity")).text()).toContain(
      "Account made with a passkey",
    );
  });

  it("takes an invitation once, for seven days, and no other code", async () => {
    const code = await newInvitation();
    const browsers = Array.from({ length: 5 }, () => new OwnerBrowser(ORIGIN, callWorker));
    const answers = await Promise.all(
      browsers.map((browser) => ceremony(browser, new Authenticator(ORIGIN), SIGN_UP(code))),
    );
    expect(answers.filter((answer) => answer.status === 303)).toHaveLength(1);
    const owner = await newOwner();
    for (const wrong of ["", "WRONG", await owner.browser.enrolmentCode()]) {
      const refused = await ceremony(
        new OwnerBrowser(ORIGIN, callWorker),
        new Authenticator(ORIGIN),
        SIGN_UP(wrong),
      );
      expect([refused.status, await refused.json()]).toEqual([
        400,
        { error: expect.stringContaining("invitation") },
      ]);
    }
    const late = await newInvitation();
    moveClock(7 * 24 * 3600_000 + 1_000);
    expect(
      (await ceremony(new OwnerBrowser(ORIGIN, callWorker), new Authenticator(ORIGIN), SIGN_UP(late))).status,
    ).toBe(400);
  });

  it.each([
    ["open", 303],
    ["closed", 403],
    ["anything else", 400],
  ])("without an invitation, when it is %s, ends with %i", async (mode, status) => {
    const browser = new OwnerBrowser(ORIGIN, workerWith({ SIGNUP_MODE: mode }));
    const csrfPage = { ...SIGN_UP(""), page: "/sign-in" };
    expect((await ceremony(browser, new Authenticator(ORIGIN), csrfPage)).status).toBe(status);
  });

  it("that was begun while it was open ends when it is closed meanwhile", async () => {
    const open = new OwnerBrowser(ORIGIN, workerWith({ SIGNUP_MODE: "open" }));
    const options = await (await postFrom(open, "/sign-up", "/sign-up/options", { name: "Late" })).json();
    const closed = new OwnerBrowser(ORIGIN, workerWith({ SIGNUP_MODE: "closed" }));
    closed.takeCookies(open);
    const credential = await new Authenticator(ORIGIN).create(options as never);
    expect((await postFrom(closed, "/sign-in", "/sign-up", { credential })).status).toBe(403);
  });
});

describe("signing in with a passkey", () => {
  it("opens the account from another browser, and counts as a fresh sign-in", async () => {
    const { authenticator } = await signedUp();
    const browser = new OwnerBrowser(ORIGIN, callWorker);
    expect((await ceremony(browser, authenticator, SIGN_IN)).status).toBe(303);
    expect(await (await browser.request("/account")).text()).toContain("Ada");
    expect(await (await browser.request("/account/activity")).text()).toContain("Signed in with a passkey");
    expect((await ceremony(browser, new Authenticator(ORIGIN), ADD)).status).toBe(303);
  });

  it.each<[string, Wrong]>([
    ["for another site", { origin: "https://evil.example" }],
    ["for another relying party", { rpId: "evil.example" }],
    ["to another challenge", { challenge: "A".repeat(43) }],
    ["without having known its person", { userVerified: false }],
    ["of another kind", { type: "webauthn.create" }],
  ])("refuses an answer %s", async (_what, wrong) => {
    const { authenticator } = await signedUp();
    const browser = new OwnerBrowser(ORIGIN, callWorker);
    const response = await ceremony(browser, authenticator, SIGN_IN, wrong);
    expect(response.status).toBe(400);
    expect(alertOf(await response.text())).toContain("not accepted");
    expect((await browser.request("/account")).status).toBe(303);
  });

  it("refuses a counter that went back: the key was copied", async () => {
    const { authenticator } = await signedUp();
    for (let i = 0; i < 3; i++)
      expect((await ceremony(new OwnerBrowser(ORIGIN, callWorker), authenticator, SIGN_IN)).status).toBe(303);
    expect(
      (await ceremony(new OwnerBrowser(ORIGIN, callWorker), authenticator, SIGN_IN, { counter: 1 })).status,
    ).toBe(400);
  });

  it("takes an answer once, from the browser that asked, within five minutes", async () => {
    const { authenticator } = await signedUp();
    const browser = new OwnerBrowser(ORIGIN, callWorker);
    const options = async () =>
      (await postFrom(browser, "/sign-in", "/sign-in/passkey/options")).json() as never;
    const credential = await authenticator.get(await options());
    const stolen = await postFrom(new OwnerBrowser(ORIGIN, callWorker), "/sign-in", "/sign-in/passkey", {
      credential,
    });
    expect(stolen.status).toBe(400);
    const csrf = csrfOf(await (await browser.request("/sign-in")).text());
    const both = await Promise.all([
      post(browser, "/sign-in/passkey", { csrf, credential }),
      post(browser, "/sign-in/passkey", { csrf, credential }),
    ]);
    expect(both.map((answer) => answer.status).sort()).toEqual([303, 400]);
    const late = await authenticator.get(await options());
    moveClock(5 * 60_000 + 1_000);
    expect((await postFrom(browser, "/sign-in", "/sign-in/passkey", { credential: late })).status).toBe(400);
  });

  it("says the same to a passkey that never was, a removed one, and nonsense", async () => {
    const { browser, authenticator } = await signedUp();
    const id =
      /name="credential_id" value="([^"]+)"/.exec(await (await browser.request("/account")).text())?.[1] ??
      "";
    expect(
      (await postFrom(browser, "/account", "/account/passkeys/remove", { credential_id: id })).status,
    ).toBe(303);
    const unknown = new Authenticator(ORIGIN);
    await unknown.create({ challenge: "AAAA", rp: { id: "relay.example.com" } } as never);
    const says = async (response: Response) => [response.status, alertOf(await response.text())];
    const removed = await says(await ceremony(new OwnerBrowser(ORIGIN, callWorker), authenticator, SIGN_IN));
    expect(await says(await ceremony(new OwnerBrowser(ORIGIN, callWorker), unknown, SIGN_IN))).toEqual(
      removed,
    );
    for (const credential of ["", "{}", "x", "[]", JSON.stringify({ id: "a" })])
      expect(
        await says(
          await postFrom(new OwnerBrowser(ORIGIN, callWorker), "/sign-in", "/sign-in/passkey", {
            credential,
          }),
        ),
      ).toEqual(removed);
  });
});

describe("more passkeys", () => {
  it("are added after a fresh sign-in, shown, used and removed", async () => {
    const { browser } = await signedUp();
    const phone = new Authenticator(ORIGIN);
    expect((await ceremony(browser, phone, ADD)).status).toBe(303);
    expect(await (await browser.request("/account")).text()).toContain("Phone");
    expect((await ceremony(new OwnerBrowser(ORIGIN, callWorker), phone, SIGN_IN)).status).toBe(303);
    moveClock(10 * 60_000 + 1_000);
    const stale = await ceremony(browser, new Authenticator(ORIGIN), ADD);
    expect([stale.status, await stale.json()]).toEqual([
      403,
      { error: expect.stringContaining("sign in again") },
    ]);
    expect(
      (await postFrom(browser, "/account", "/account/passkeys/remove", { credential_id: "x" })).status,
    ).toBe(403);
  });

  it("let an owner in who came by a one-time link, and never go to another account", async () => {
    const owner = await newOwner("Linked");
    const stranger = await signedUp();
    const own = new Authenticator(ORIGIN);
    expect((await ceremony(owner.browser, own, ADD)).status).toBe(303);
    const browser = new OwnerBrowser(ORIGIN, callWorker);
    await ceremony(browser, own, SIGN_IN);
    expect(await (await browser.request("/account")).text()).toContain("Linked");
    const id = await env.DB.prepare("SELECT credential_id FROM passkeys WHERE account_id = ?")
      .bind(owner.account_id)
      .first<string>("credential_id");
    expect(
      (await postFrom(stranger.browser, "/account", "/account/passkeys/remove", { credential_id: id ?? "" }))
        .status,
    ).toBe(404);
    // A challenge begun for one account is nothing to another.
    const options = await (await postFrom(owner.browser, "/account", "/account/passkeys/options")).json();
    const credential = await new Authenticator(ORIGIN).create(options as never);
    expect(
      (await postFrom(stranger.browser, "/account", "/account/passkeys", { credential, name: "x" })).status,
    ).toBe(400);
  });

  it("hold no secret at rest", async () => {
    const rows = await env.DB.prepare("SELECT * FROM passkeys").all();
    expect(Object.keys(rows.results[0] ?? {})).toEqual([
      "credential_id",
      "account_id",
      "name",
      "public_key",
      "counter",
      "transports",
      "created_at",
      "last_used_at",
    ]);
  });
});
