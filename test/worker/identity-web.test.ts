import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { OwnerBrowser } from "../../scripts/lib/owner-browser.ts";
import { ownerLink } from "../../scripts/lib/owner-link.ts";
import { systemClock, systemRandom } from "../../src/protocol/ports.ts";
import { displayText, formActionFor, returnPath } from "../../src/worker/web/forms.ts";
import {
  callWorker,
  connectAgent,
  newOwner,
  newProject,
  ORIGIN,
  pairDevice,
  registerClient,
  type TestOwner,
} from "./support/people.ts";

const moveClock = (ms: number) => vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + ms });
async function newLink(owner: { name: string } | { accountId: string } = { name: "Linked" }) {
  const link = await ownerLink(owner, { clock: systemClock, random: systemRandom });
  await env.DB.batch(link.sql.map((statement) => env.DB.prepare(statement)));
  return link;
}
const csrfOf = (page: string) => /name="csrf" value="([^"]+)"/.exec(page)?.[1] ?? "";
const post = (
  browser: OwnerBrowser,
  path: string,
  fields: Record<string, string>,
  headers: Record<string, string> = { origin: ORIGIN },
) =>
  browser.request(path, {
    method: "POST",
    headers: { "content-type": "application/x-www-form-urlencoded", ...headers },
    body: new URLSearchParams(fields).toString(),
  });
const account = async (owner: TestOwner) => (await owner.browser.request("/account")).text();

afterEach(() => {
  vi.useRealTimers();
});

describe("signing in by a one-time link", () => {
  it("keeps the code in the fragment, out of every request, and works by pasting", async () => {
    const { code } = await newLink();
    const page = await (await callWorker(`${ORIGIN}/sign-in`)).text();
    expect(page).toContain('<label for="code">One-time code</label>');
    expect(await (await callWorker(`${ORIGIN}/assets/code.js`)).text()).toContain("location.hash");
    const browser = new OwnerBrowser(ORIGIN, callWorker);
    await browser.signIn(`${ORIGIN}/sign-in#${code}`);
    expect((await browser.request("/account")).status).toBe(200);
  });

  it("works once, of ten browsers at the same time for one", async () => {
    const { code } = await newLink();
    const tries = await Promise.allSettled(
      Array.from({ length: 10 }, () => new OwnerBrowser(ORIGIN, callWorker).signIn(code)),
    );
    expect(tries.filter((t) => t.status === "fulfilled")).toHaveLength(1);
  });

  it("works for fifteen minutes", async () => {
    const { code } = await newLink();
    moveClock(15 * 60_000 + 1_000);
    await expect(new OwnerBrowser(ORIGIN, callWorker).signIn(code)).rejects.toThrow(/wrong, used or expired/);
  });

  it("does not take an enrolment code, nor a wrong one, and says the same to both", async () => {
    const owner = await newOwner();
    const enrolment = await owner.browser.enrolmentCode();
    const answers = [];
    for (const code of [enrolment, "WRONG", "x".repeat(5_000)]) {
      const browser = new OwnerBrowser(ORIGIN, callWorker);
      answers.push(await browser.signIn(code).then(String, String));
    }
    expect(new Set(answers).size).toBe(1);
  });

  it("lets an owner in again who has an account already", async () => {
    const owner = await newOwner("Ada");
    const { code } = await newLink({ accountId: owner.account_id });
    const browser = new OwnerBrowser(ORIGIN, callWorker);
    await browser.signIn(code);
    expect(await (await browser.request("/account")).text()).toContain("Ada");
  });

  it("keeps nothing of the code but its hash", async () => {
    const link = await newLink();
    expect(link.sql.join()).not.toContain(link.code);
    const rows = await env.DB.prepare("SELECT * FROM one_time_codes").all();
    expect(JSON.stringify(rows.results)).not.toContain(link.code.replaceAll("-", ""));
  });
});

describe("sessions", () => {
  it("are an opaque host-only cookie of a secret that is stored nowhere", async () => {
    const { code } = await newLink();
    const browser = new OwnerBrowser(ORIGIN, callWorker);
    const page = await (await browser.request("/sign-in")).text();
    const response = await post(browser, "/sign-in", { csrf: csrfOf(page), code });
    const cookie = response.headers.getSetCookie().find((c) => c.startsWith("__Host-session="));
    expect(cookie).toMatch(/; Path=\/; HttpOnly; Secure; SameSite=Lax|Max-Age/);
    for (const part of ["Path=/", "HttpOnly", "Secure", "SameSite=Lax"]) expect(cookie).toContain(part);
    expect(cookie).not.toContain("Domain");
    const secret = /=([^;]+)/.exec(cookie ?? "")?.[1] ?? "";
    expect(secret.length).toBeGreaterThanOrEqual(43);
    expect(JSON.stringify((await env.DB.prepare("SELECT * FROM web_sessions").all()).results)).not.toContain(
      secret,
    );
  });

  it("have a plain name on http://localhost, where browsers refuse the prefix", async () => {
    const { code } = await newLink();
    const origin = "http://localhost:8787";
    const browser = new OwnerBrowser(origin, callWorker);
    const page = await (await browser.request("/sign-in")).text();
    const response = await post(browser, "/sign-in", { csrf: csrfOf(page), code }, { origin });
    expect(response.headers.getSetCookie().find((c) => c.startsWith("session="))).not.toContain("Secure");
    expect(response.headers.has("strict-transport-security")).toBe(false);
  });

  it("are never the one a stranger brought: signing in makes a new one and ends the old", async () => {
    const { code } = await newLink();
    const fixed = "A".repeat(43);
    const headers = { cookie: `__Host-session=${fixed}; __Host-form=${fixed}` };
    const page = await (await callWorker(`${ORIGIN}/sign-in`, { headers })).text();
    const response = await callWorker(`${ORIGIN}/sign-in`, {
      method: "POST",
      redirect: "manual",
      headers: { ...headers, origin: ORIGIN, "content-type": "application/x-www-form-urlencoded" },
      body: new URLSearchParams({ csrf: csrfOf(page), code }).toString(),
    });
    expect(response.status).toBe(303);
    expect(response.headers.getSetCookie().join()).not.toContain(fixed);
    expect((await callWorker(`${ORIGIN}/account`, { headers, redirect: "manual" })).status).toBe(303);
  });

  it("end after a week, and with the sign-out", async () => {
    const owner = await newOwner();
    await owner.browser.submit("/sign-out", {});
    expect((await owner.browser.request("/account")).status).toBe(303);
    const other = await newOwner();
    moveClock(7 * 24 * 3600_000 + 1_000);
    expect((await other.browser.request("/account")).headers.get("location")).toBe("/sign-in");
  });
});

describe("forms", () => {
  const FORMS = [
    "/sign-in",
    "/sign-out",
    "/authorize",
    "/account/enrolment-codes",
    "/account/agents/disconnect",
    "/account/agents/revoke",
    "/account/delete",
    "/account/devices/remove",
    "/account/export",
    "/account/passkeys",
    "/account/passkeys/options",
    "/account/passkeys/remove",
    "/account/projects",
    "/account/projects/delete",
    "/account/projects/rename",
    "/account/projects/settings",
    "/account/provider",
    "/account/provider/remove",
    "/sign-in/passkey",
    "/sign-in/passkey/options",
    "/sign-in/provider",
    "/sign-up",
    "/sign-up/options",
  ];

  it.each(FORMS)(
    "of %s do nothing for another site, without the token, or with another browser's",
    async (path) => {
      const owner = await newOwner();
      const stranger = await newOwner("Stranger");
      const good = csrfOf(await account(owner));
      const fields = {
        name: "Changed",
        project_id: owner.project_id,
        decision: "allow",
        request: "client_id=x",
      };
      for (const [csrf, headers] of [
        [good, { origin: "https://evil.example" }],
        [good, { origin: "null" }],
        [good, { "sec-fetch-site": "cross-site" }],
        [good, {}],
        ["", { origin: ORIGIN }],
        ["x", { origin: ORIGIN }],
        [csrfOf(await account(stranger)), { origin: ORIGIN }],
      ] as const)
        expect((await post(owner.browser, path, { ...fields, csrf }, headers)).status).toBe(403);
      const json = await owner.browser.request(path, {
        method: "POST",
        headers: { "content-type": "application/json", origin: "https://evil.example" },
        body: JSON.stringify({ ...fields, csrf: good }),
      });
      expect(json.status).toBe(403);
      expect(await account(owner)).not.toContain("Changed");
    },
  );

  it("over 16 kB are refused", async () => {
    const owner = await newOwner();
    expect(
      (
        await post(owner.browser, "/account/projects", {
          csrf: csrfOf(await account(owner)),
          name: "x".repeat(20_000),
        })
      ).status,
    ).toBe(413);
  });

  it("do nothing for who is not signed in", async () => {
    const browser = new OwnerBrowser(ORIGIN, callWorker);
    const csrf = csrfOf(await (await browser.request("/sign-in")).text());
    for (const path of FORMS.filter((form) => !form.startsWith("/sign")))
      expect((await post(browser, path, { csrf })).status).toBe(403);
  });
});

describe("the account page", () => {
  it("shows agents, laptops and projects, and ends them", async () => {
    const owner = await newOwner();
    const agent = await connectAgent(owner, { clientName: "Helpful agent" });
    const device = await pairDevice(owner, "Kitchen laptop");
    let page = await account(owner);
    expect(page).toContain("Helpful agent");
    expect(page).toContain("read and run");
    expect(page).toContain("Kitchen laptop");
    await owner.browser.submit("/account/agents/revoke", { agent_id: agent.agent_id });
    await owner.browser.submit("/account/devices/remove", { device_id: device.device_id });
    page = await account(owner);
    expect(page).not.toContain("Helpful agent");
    expect(page).not.toContain("Kitchen laptop");
  });

  it("makes and renames projects", async () => {
    const owner = await newOwner();
    const id = await newProject(owner, "Research");
    await owner.browser.submit("/account/projects/rename", { project_id: id, name: "Writing" });
    const page = await account(owner);
    expect(page).toContain("Writing");
    expect(page).not.toContain("Research");
    expect(await newProject(owner, "<script>alert(1)</script>")).toMatch(/^prj_/);
    expect(await account(owner)).not.toContain("<script>alert");
  });

  it("answers another account's ids like ids that never were, and changes nothing", async () => {
    const owner = await newOwner();
    const stranger = await newOwner("Stranger");
    const agent = await connectAgent(owner);
    const device = await pairDevice(owner);
    for (const [path, field, own, unknown] of [
      ["/account/agents/revoke", "agent_id", agent.agent_id, `agt_${"0".repeat(32)}`],
      ["/account/devices/remove", "device_id", device.device_id, `dev_${"0".repeat(32)}`],
      ["/account/projects/rename", "project_id", owner.project_id, "prj_000000000000"],
    ] as const) {
      const csrf = csrfOf(await account(stranger));
      const answers: [number, string][] = [];
      for (const id of [own, unknown, "nonsense", ""]) {
        const response = await post(stranger.browser, path, { csrf, [field]: id, name: "Taken" });
        answers.push([response.status, await response.text()]);
      }
      expect(answers.every((answer) => JSON.stringify(answer) === JSON.stringify(answers[0]))).toBe(true);
      expect(answers[0]?.[0]).toBe(404);
    }
    const page = await account(owner);
    expect(page).toContain(agent.agent_id);
    expect(page).toContain(device.device_id);
    expect(page).not.toContain("Taken");
  });

  it("does the same work for another account's id as for one that never was: no time to tell them apart by", async () => {
    const owner = await newOwner();
    const stranger = await newOwner("Stranger");
    const agent = await connectAgent(owner);
    const device = await pairDevice(owner);
    const csrf = csrfOf(await account(stranger));
    for (const [path, field, own, unknown] of [
      ["/account/agents/revoke", "agent_id", agent.agent_id, `agt_${"0".repeat(32)}`],
      ["/account/agents/disconnect", "agent_id", agent.agent_id, `agt_${"0".repeat(32)}`],
      ["/account/devices/remove", "device_id", device.device_id, `dev_${"0".repeat(32)}`],
      ["/account/projects/rename", "project_id", owner.project_id, "prj_000000000000"],
      ["/account/projects/settings", "project_id", owner.project_id, "prj_000000000000"],
      ["/account/projects/delete", "project_id", owner.project_id, "prj_000000000000"],
      ["/account/passkeys/remove", "credential_id", "unknown", "unknown too"],
    ] as const) {
      const work: string[][] = [];
      for (const id of [own, unknown]) {
        const statements: string[] = [];
        const prepare = env.DB.prepare.bind(env.DB);
        const spy = vi.spyOn(env.DB, "prepare").mockImplementation((sql) => {
          statements.push(sql);
          return prepare(sql);
        });
        await post(stranger.browser, path, { csrf, [field]: id, name: "Taken" });
        spy.mockRestore();
        work.push(statements);
      }
      expect(work[0], path).toEqual(work[1]);
      expect(work[0]?.length).toBeGreaterThan(0);
    }
  });
});

describe("pages", () => {
  it.each(["/sign-in", "/account", "/", "/authorize?client_id=x", "/sign-out"])(
    "%s cannot be framed, scripted, sniffed or kept",
    async (path) => {
      const owner = await newOwner();
      const { headers } = await owner.browser.request(path);
      const csp = headers.get("content-security-policy") ?? "";
      expect(csp).toContain("default-src 'none'");
      expect(csp).toContain("script-src 'self'");
      expect(csp).toContain("frame-ancestors 'none'");
      expect(csp).not.toContain("unsafe");
      expect(headers.get("x-frame-options")).toBe("DENY");
      expect(headers.get("strict-transport-security")).toMatch(/max-age=\d{8}/);
      expect(headers.get("x-content-type-options")).toBe("nosniff");
      expect(headers.get("referrer-policy")).toBe("same-origin");
      expect(headers.get("cache-control")).toBe("no-store");
      expect(headers.get("access-control-allow-origin")).toBeNull();
    },
  );

  it("hold no inline script or style", async () => {
    const owner = await newOwner();
    await connectAgent(owner);
    const page = await account(owner);
    expect(page).not.toMatch(/<script(?![^>]*\ssrc=)/);
    expect(page).not.toMatch(/\sstyle=|\son[a-z]+=/);
  });
});

describe("plain http", () => {
  it("is refused but on the machine itself: pages go to https, calls are not answered", async () => {
    const page = await callWorker("http://relay.example.com/sign-in?return_to=/account", {
      redirect: "manual",
    });
    expect([page.status, page.headers.get("location")]).toEqual([
      308,
      "https://relay.example.com/sign-in?return_to=/account",
    ]);
    for (const path of ["/token", "/register", "/sign-in", "/mcp", "/external-assistants/graph-relays/token"])
      expect(
        (await callWorker(`http://relay.example.com${path}`, { method: "POST", body: "{}" })).status,
      ).toBe(403);
    for (const host of ["localhost:8787", "127.0.0.1:8787", "[::1]:8787"])
      expect((await callWorker(`http://${host}/sign-in`)).status).toBe(200);
  });
});

describe("the consent page", () => {
  const consent = async (
    owner: TestOwner,
    clientName: string,
    redirectUri = "http://127.0.0.1:1/callback",
  ) => {
    const client_id = await registerClient(redirectUri, clientName);
    const query = new URLSearchParams({
      response_type: "code",
      client_id,
      redirect_uri: redirectUri,
      code_challenge: "a".repeat(43),
      code_challenge_method: "S256",
      scope: "osfoundry:run",
    });
    return owner.browser.request(`/authorize?${query}`);
  };

  it("says who asks, where the answer goes, which projects and what for", async () => {
    const owner = await newOwner();
    await newProject(owner, "Second project");
    const response = await consent(owner, "Claude", "https://evil.example/callback");
    const page = await response.text();
    expect(page).toContain("<bdi>Claude</bdi>");
    expect(page).toContain("It chose this name itself");
    expect(page).toContain("<strong>evil.example</strong>");
    expect(page).toContain("Second project");
    expect(page).toContain("Start Graphs on your laptop");
    expect(response.headers.get("content-security-policy")).toContain("form-action 'self' https:;");
  });

  it("warns when the answer goes to a program on this computer", async () => {
    const owner = await newOwner();
    const response = await consent(owner, "Local");
    expect(await response.text()).toContain('class="warning"');
    expect(response.headers.get("content-security-policy")).toContain(
      "form-action 'self' https: http://127.0.0.1:*;",
    );
  });

  it("shows a name with markup, direction marks and line breaks as plain text", async () => {
    const owner = await newOwner();
    const page = await (await consent(owner, "<img src=x onerror=alert(1)>\u202e\u2066\n evil\u0000")).text();
    expect(page).toContain("&lt;img src=x onerror=alert(1)&gt; evil");
    for (const mark of ["\u202e", "\u2066", "\u0000"]) expect(page).not.toContain(mark);
    expect(page).not.toContain("<img");
  });
});

describe("where signing in leads", () => {
  it.each([
    ["https://evil.example/", "/account"],
    ["//evil.example/", "/account"],
    ["/\\evil.example", "/account"],
    ["/\t/evil.example", "/account"],
    ["javascript:alert(1)", "/account"],
    ["/sign-out", "/account"],
    ["/account/../authorize/x", "/account"],
    ["", "/account"],
    ["/authorize?client_id=a&state=b", "/authorize?client_id=a&state=b"],
  ])("%j leads to %s", (value, path) => {
    expect(returnPath(value, ORIGIN)).toBe(path);
  });

  it("is the consent page that was asked for", async () => {
    const { code } = await newLink();
    const browser = new OwnerBrowser(ORIGIN, callWorker);
    const asked = await browser.request("/authorize?client_id=a&state=b");
    const page = await (await browser.request(asked.headers.get("location") ?? "")).text();
    const returnTo = /name="return_to" value="([^"]+)"/.exec(page)?.[1]?.replaceAll("&amp;", "&") ?? "";
    const response = await post(browser, "/sign-in", { csrf: csrfOf(page), code, return_to: returnTo });
    expect(response.headers.get("location")).toBe("/authorize?client_id=a&state=b");
  });
});

describe("text of strangers", () => {
  it("is cut between characters and loses what cannot be seen", () => {
    expect(displayText("a\u200bb\u202ec\ud800d\ne")).toBe("abc\ufffdd e");
    expect(displayText("😀".repeat(100), 10)).toBe(`${"😀".repeat(9)}…`);
  });
  it("never widens a form to plain http elsewhere", () => {
    expect(formActionFor("https://a.example/x")).toBe("'self' https:");
    expect(formActionFor("http://localhost:1/x")).toBe("'self' https: http://localhost:*");
  });
});
