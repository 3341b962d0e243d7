import { createServer, type Server } from "node:http";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ownerLink } from "../../scripts/lib/owner-link.ts";
import { systemClock, systemRandom } from "../../src/protocol/ports.ts";
import { newPerson, openLink, type Person, PHONE } from "../support/browser.ts";
import { inBrowser } from "../support/browser-suite.ts";
import { startTestEndpoint, type TestEndpoint } from "../support/endpoint.ts";
import { ScriptedDevice } from "../support/scripted-device.ts";
import { registerClient, signInAgent } from "../support/sign-in.ts";
import { FOCUSED, LAYOUT, type Layout, TRESPASS } from "./in-page.ts";

// What a browser itself makes of the pages: policies it holds them to, and widths it lays them out in.

const HOSTILE = `<img src=x onerror="document.title='run'"><script>document.title='run'</script>`;
const LONG = "W".repeat(120);

let endpoint: TestEndpoint;
let code: string;
/** A page of somebody else on the same machine: same site, other origin, so that cookies do travel. */
let foreign: { server: Server; url: string; html: string };

async function setUp(): Promise<void> {
  endpoint = await startTestEndpoint(async (accountId) => {
    const link = await ownerLink({ accountId }, { clock: systemClock, random: systemRandom });
    code = link.code;
    return link.sql;
  });
  await endpoint.owner.submit("/account/projects", { name: HOSTILE });
  await endpoint.owner.submit("/account/projects", { name: LONG });
  await signInAgent(endpoint, { name: HOSTILE });
  await signInAgent(endpoint, { name: LONG });
  await ScriptedDevice.pair(endpoint);
  const server = createServer((_, answer) => {
    answer.writeHead(200, { "content-type": "text/html" }).end(foreign.html);
  });
  await new Promise<void>((done) => server.listen(0, "localhost", done));
  const address = server.address();
  const port = typeof address === "object" && address ? address.port : 0;
  foreign = { server, url: `http://localhost:${port}/`, html: "" };
}
async function tearDown(): Promise<void> {
  foreign?.server.close();
  await endpoint?.stop();
}

/** The consent page's address for a client of this name and redirect. */
async function consentUrl(name: string, redirect: string): Promise<string> {
  const query = new URLSearchParams({
    response_type: "code",
    client_id: await registerClient(endpoint, name, redirect),
    redirect_uri: redirect,
    scope: "osfoundry:read osfoundry:run",
    state: "s",
    code_challenge: "a".repeat(43),
    code_challenge_method: "S256",
  });
  return `${endpoint.url}/authorize?${query}`;
}

/** The login of a laptop, as the relay asks for it. */
const laptopUrl = () => {
  const query = new URLSearchParams({
    response_type: "code",
    client_id: "graph-relay-cli",
    redirect_uri: "http://127.0.0.1:4712/callback",
    scope: "device:register",
    state: "s",
    code_challenge: "a".repeat(43),
    code_challenge_method: "S256",
    device_name: LONG,
    device_platform: "linux x64",
    device_thumbprint: "x".repeat(43),
  });
  return `${endpoint.url}/authorize?${query}`;
};

await inBrowser("Pages in a browser", (browser) => {
  beforeAll(setUp);
  afterAll(tearDown);
  let owner: Person;
  let page: Page;
  let project: string;
  beforeAll(async () => {
    owner = await newPerson(browser(), { phone: true });
    page = owner.page;
    await openLink(page, endpoint.url, code);
    project = (await page.getByRole("link", { name: "Settings of" }).first().getAttribute("href")) ?? "";
  });
  afterAll(() => owner?.close());

  const PAGES: readonly (readonly [string, () => string | Promise<string>])[] = [
    ["sign-in", () => "/sign-in"],
    ["sign-up", () => "/sign-up"],
    ["account", () => "/account"],
    ["project", () => project],
    ["activity", () => "/account/activity"],
    ["data", () => "/account/data"],
    ["consent", () => consentUrl(LONG, `https://${"w".repeat(60)}.example/callback`)],
    ["laptop's consent", laptopUrl],
    ["not-there", () => "/account/projects/prj_000000000000"],
  ];

  it.each(PAGES)(
    "the %s page fits a phone, names every control, and has one main heading",
    async (_, path) => {
      await page.goto(new URL(await path(), endpoint.url).href);
      const found = await page.evaluate<Layout>(LAYOUT);
      expect(found).toEqual({ width: PHONE.width, unnamed: [], headings: 1, language: "en", small: 0 });
    },
  );

  it("names with markup are text wherever they are shown, and nothing of them runs", async () => {
    const paths = [
      "/account",
      "/account/activity",
      await consentUrl(HOSTILE, "https://evil.example/callback"),
    ];
    for (const path of paths) {
      await page.goto(new URL(path, endpoint.url).href);
      expect(await page.locator("main img, main script").count()).toBe(0);
      expect(await page.locator("main").textContent()).toContain("<img src=x");
      expect(await page.title()).not.toBe("run");
    }
  });

  it("the browser runs no script that is written into a page, nor one of another host", async () => {
    await page.goto(`${endpoint.url}/account`);
    const violations = await page.evaluate<string[]>(TRESPASS);
    expect(violations).toEqual(["img-src", "script-src-attr", "script-src-elem", "script-src-elem"]);
    expect(await page.title()).not.toBe("run");
  });

  it.each(["Claude", "Cla\u202Eude", "Claude\u200B by Anthropic"])(
    "a client that calls itself %j shows where its answer really goes, unverified, without marks",
    async (name) => {
      await page.goto(await consentUrl(name, "https://claude.ai.evil.example/api/mcp/auth_callback"));
      const text = (await page.locator("main").textContent()) ?? "";
      expect(text).toContain("Not verified");
      expect(text).toContain("claude.ai.evil.example");
      expect(text).not.toMatch(/[\u200B-\u200F\u202A-\u202E\u2066-\u2069]/);
    },
  );

  it("a consent page in somebody else's frame is refused by the browser", async () => {
    foreign.html = `<iframe src="${(await consentUrl("Framed", "https://evil.example/cb")).replaceAll("&", "&amp;")}"></iframe>`;
    await page.goto(foreign.url);
    await expect
      .poll(() => page.frames().at(1)?.url(), { timeout: 10_000 })
      .toBe("chrome-error://chromewebdata/");
  });

  it.each([
    ["/account/enrolment-codes", {}],
    ["/account/projects", { name: "Planted" }],
    ["/account/delete", { confirm: "Owner" }],
    ["/sign-out", {}],
    ["/authorize", { decision: "allow", request: "client_id=x" }],
  ])(
    "a form of somebody else's page to %s does nothing, though the cookie comes along",
    async (path, fields) => {
      const inputs = Object.entries({ csrf: "0".repeat(64), ...fields })
        .map(([name, value]) => `<input name="${name}" value="${value}">`)
        .join("");
      foreign.html = `<form method="post" action="${endpoint.url}${path}">${inputs}<button>Win a prize</button></form>`;
      await page.goto(foreign.url);
      const [answer] = await Promise.all([
        page.waitForResponse((response) => response.url().endsWith(path)),
        page.getByRole("button").click(),
      ]);
      expect(answer.request().headers().origin).toBe(new URL(foreign.url).origin);
      expect(answer.status()).toBe(403);
      await page.goto(`${endpoint.url}/account`);
      expect(await page.getByRole("heading", { level: 1 }).textContent()).toBe("Owner");
      expect(await page.locator("main").textContent()).not.toContain("Planted");
    },
  );

  it("a consent is answered by the keyboard alone", async () => {
    foreign.html = "The client has its answer";
    await page.goto(await consentUrl("Keys", `${foreign.url}callback`));
    await page.locator("input[name=project_id]").first().focus();
    await page.keyboard.press("Space");
    const focused = () => page.evaluate<{ outline: string; text: string }>(FOCUSED);
    expect(await focused()).toMatchObject({ outline: "solid" });
    for (let i = 0; i < 12 && (await focused()).text !== "Allow"; i++) await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await page.waitForURL(`${foreign.url}callback?**`);
    expect(new URL(page.url()).searchParams.get("code")).toBeTruthy();
  });
});
