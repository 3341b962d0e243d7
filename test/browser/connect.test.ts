import { randomUUID } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { EXIT_CODES } from "../../relay-cli/exit-codes.ts";
import { ownerLink } from "../../scripts/lib/owner-link.ts";
import { systemClock, systemRandom } from "../../src/protocol/ports.ts";
import type { SessionMetadata } from "../../src/protocol/relay-api.ts";
import { openTerminal } from "../engine/support/pseudo-terminal.ts";
import { Cli } from "../relay/support/cli.ts";
import { newPerson, openLink, type Person } from "../support/browser.ts";
import { inBrowser } from "../support/browser-suite.ts";
import { type CallbackServer, startCallbackServer } from "../support/callback-server.ts";
import { authorizationScenarios } from "../support/conformance.ts";
import { freePort, startTestEndpoint, type TestEndpoint } from "../support/endpoint.ts";
import { type Agent, OFFICIAL_CLIENTS } from "../support/official-clients.ts";
import { ScriptedDevice } from "../support/scripted-device.ts";
import { registerClient } from "../support/sign-in.ts";

// What an owner goes through to let agents and laptops in, and to throw them out again.

const TOOLS = ["list_graph_sessions", "run_graph_session", "get_graph_run", "cancel_graph_run"];
const SESSION: SessionMetadata = {
  graph_session_id: "gs_00000000000000000000000000000001",
  name: "Report",
  description: "Counts files",
  slug: "report",
  version: "1",
  status: "ready",
};
const WAITS = `
export const meta = { name: "Waits", description: "Waits until it is told to stop.", version: "1.0.0" };
export default async function ({ signal, progress }) {
  setInterval(() => progress("waiting"), 500);
  await new Promise((_, stop) => signal.addEventListener("abort", () => stop(signal.reason)));
}
`;

let endpoint: TestEndpoint;
let code: string;
let callback: CallbackServer;
const laptops: Cli[] = [];
const newLaptop = () => {
  const cli = new Cli();
  laptops.push(cli);
  return cli;
};
async function setUp(): Promise<void> {
  endpoint = await startTestEndpoint(async (accountId) => {
    const link = await ownerLink({ accountId }, { clock: systemClock, random: systemRandom });
    code = link.code;
    return link.sql;
  });
  await endpoint.owner.submit("/account/projects", { name: "Private" });
  callback = await startCallbackServer();
}
async function tearDown(): Promise<void> {
  for (const cli of laptops) await cli.remove();
  await callback?.close();
  await endpoint?.stop();
}

/** A folder with what opens a browser on this platform: it writes down the address. */
function openers(folder: string): string {
  const bin = join(folder, "bin");
  mkdirSync(bin);
  for (const name of ["xdg-open", "open"])
    writeFileSync(join(bin, name), `#!/bin/sh\nprintf '%s' "$1" > '${join(folder, "opened")}'\n`, {
      mode: 0o700,
    });
  return bin;
}

/** Looks every 100 ms, for half a minute, until `look` answers what is expected. */
async function becomes<T>(look: () => Promise<T> | T, expected: T): Promise<void> {
  let seen = await look();
  for (let tries = 0; tries < 300 && seen !== expected; tries++) {
    await new Promise((done) => setTimeout(done, 100));
    seen = await look();
  }
  expect(seen).toBe(expected);
}

/** Asks for a run of the Graph that waits. */
async function queueWaits(agent: Agent): Promise<string> {
  const listed = (await agent.call("list_graph_sessions", {})).structuredContent?.sessions;
  const waits = (listed as { name: string; graph_session_id: string }[]).find(({ name }) => name === "Waits");
  const ticket = await agent.call("run_graph_session", {
    graph_session_id: waits?.graph_session_id,
    idempotency_key: randomUUID(),
  });
  return String(ticket.structuredContent?.command_id);
}
const statusOf = async (agent: Agent, command_id: string) =>
  (await agent.call("get_graph_run", { command_id, wait_seconds: 0 })).structuredContent?.status;
const history = (cli: Cli) => cli.store((store) => store.history.list(10));

await inBrowser("Connecting in a browser", (browser) => {
  beforeAll(setUp);
  afterAll(tearDown);
  let owner: Person;
  let page: Page;
  beforeAll(async () => {
    owner = await newPerson(browser());
    page = owner.page;
    await openLink(page, endpoint.url, code);
  });
  afterAll(() => owner?.close());
  const rowOf = (name: string) => page.getByRole("listitem", { name, exact: true });
  const button = (name: string) => page.getByRole("button", { name, exact: true });

  /** Ticks the project and answers; resolves with what the client is sent. */
  const consent = (answer: "Allow" | "Deny") => async (url: URL) => {
    const sent = callback.next();
    await page.goto(url.href);
    if (answer === "Allow") await page.getByLabel("My laptop").check();
    await button(answer).click();
    return sent;
  };
  const connect = (client: (typeof OFFICIAL_CLIENTS)[number][1], answer: "Allow" | "Deny" = "Allow") =>
    client({ url: endpoint.url, redirectUrl: callback.url, consent: consent(answer) });

  describe.each(OFFICIAL_CLIENTS)("%s", (_, client) => {
    it("goes from the address alone to a finished run, by its own sign-in", async () => {
      const device = await ScriptedDevice.pair(endpoint);
      await device.sync([SESSION]);
      const agent = await connect(client);
      expect(await agent.tools()).toEqual(TOOLS);
      const ticket = await agent.call("run_graph_session", {
        graph_session_id: SESSION.graph_session_id,
        arguments: { folder: "." },
        idempotency_key: randomUUID(),
      });
      const command_id = String(ticket.structuredContent?.command_id);
      const waiting = agent.call("get_graph_run", { command_id, wait_seconds: 30 });
      await device.sync([SESSION]);
      await device.finish(command_id, { files: 3 });
      expect((await waiting).structuredContent).toMatchObject({ status: "completed", result: { files: 3 } });
      await agent.close();
      // The session is one laptop's: the next one's turn.
      await page.goto(`${endpoint.url}/account`);
      await rowOf("Laptop").getByRole("button").click();
      await rowOf("Laptop").waitFor({ state: "detached" });
    });

    it("is told that the owner said no", async () => {
      await expect(connect(client, "Deny")).rejects.toThrow();
      expect(page.url()).toContain("error=access_denied");
      expect(page.url()).toContain("iss=http");
    });
  });

  it("the consent page asks for each project, ticks none of several, and says so when none is", async () => {
    const [, client] = OFFICIAL_CLIENTS[0] ?? [];
    if (!client) throw new Error("no client");
    const looked: string[] = [];
    const agent = await client({
      url: endpoint.url,
      redirectUrl: callback.url,
      consent: async (url) => {
        const sent = callback.next();
        // Another client than the one that is connected: nothing is ticked for it.
        await page.goto(url.href);
        for (const name of ["My laptop", "Private"]) await page.getByLabel(name).uncheck();
        await page.getByLabel("Start Graphs on your laptop").uncheck();
        await button("Allow").click();
        looked.push((await page.getByRole("alert").textContent()) ?? "");
        expect(await page.getByLabel("Start Graphs on your laptop").isChecked()).toBe(false);
        await page.getByLabel("Private").check();
        await button("Allow").click();
        return sent;
      },
    });
    expect(looked).toEqual(["Tick at least one project and one permission, or deny."]);
    const refused = await agent
      .call("run_graph_session", { graph_session_id: SESSION.graph_session_id, idempotency_key: "12345678" })
      .catch(String);
    expect(JSON.stringify(refused)).toMatch(/scope|authoriz/i);
    await agent.close();
    await page.goto(`${endpoint.url}/account`);
    const row = await rowOf("Official client").textContent();
    expect(row).toContain("may read");
    expect(row).not.toContain("may read and run");
    expect(row).not.toContain("My laptop");
  });

  it("the conformance suite's authorization scenarios pass, with their consent given here", async () => {
    const port = await freePort();
    const clientId = await registerClient(endpoint, "Conformance", `http://127.0.0.1:${port}/callback`);
    const results = mkdtempSync(join(tmpdir(), "graph-relay-conformance-"));
    const { code: exit, output } = await authorizationScenarios(
      { issuer: endpoint.url, clientId, port },
      results,
      async (url) => {
        await page.goto(url);
        await page.getByLabel("My laptop").check();
        await button("Allow").click();
      },
    );
    rmSync(results, { recursive: true });
    expect(exit, output).toBe(0);
    for (const scenario of ["authorization-server-metadata-endpoint", "authorization-code-grant"])
      expect(output).toContain(scenario);
    expect(output).not.toMatch(/FAILURE|WARNING|SKIPPED: /);
  });

  describe("a laptop", () => {
    it("without a browser joins by a code from the account page, shown once", async () => {
      await page.goto(`${endpoint.url}/account`);
      await button("Make an enrolment code").click();
      const shown = (await page.locator("output").textContent()) ?? "";
      const cli = newLaptop();
      const joined = await cli.run(["login", endpoint.url, "--code", "--name", "Server"], { stdin: shown });
      expect(joined.code).toBe(0);
      await page.goto(`${endpoint.url}/account`);
      expect(await rowOf("Server").count()).toBe(1);
      expect(await page.content()).not.toContain(shown);
      const again = await newLaptop().run(["login", endpoint.url, "--code"], { stdin: shown });
      expect(again.code).toBe(EXIT_CODES.failed[0]);
    });

    it("opens the browser by itself to join, works until it is removed there, and then stops by itself", async () => {
      const cli = newLaptop();
      const login = openTerminal(cli.folder, ["login", endpoint.url, "--name", "Ada’s laptop"], {
        columns: 200,
        env: { PATH: `${openers(cli.folder)}${delimiter}${process.env.PATH}` },
      });
      await login.shows("key fingerprint: ");
      const opened = join(cli.folder, "opened");
      await becomes(() => existsSync(opened) && readFileSync(opened, "utf8").startsWith("http"), true);
      const url = readFileSync(opened, "utf8");
      const [, fingerprint = ""] = /key fingerprint: ([\w-]{43})/.exec(login.shown()) ?? [];
      await page.goto(url);
      const asks = (await page.locator("main").textContent()) ?? "";
      expect(asks).toContain("Ada’s laptop");
      expect(asks).toContain(`${process.platform} ${process.arch}`);
      expect(asks).toContain(fingerprint);
      await button("Allow").click();
      await page.getByText("You can close this page").waitFor();
      expect(await login.ended, login.shown()).toBe(0);
      expect(login.shown()).toContain("Paired Ada’s laptop with Owner");

      writeFileSync(join(cli.folder, "waits.mjs"), WAITS);
      await cli.run(["graph", "add", join(cli.folder, "waits.mjs")]);
      expect((await cli.run(["share", "waits", "--project", "My laptop"])).code).toBe(0);
      const relay = cli.spawn(["start"]);
      await relay.says("now sees 1 Graph(s)");

      const [, client] = OFFICIAL_CLIENTS[1] ?? [];
      if (!client) throw new Error("no client");
      let asked = 0;
      const agent = await client({
        url: endpoint.url,
        redirectUrl: callback.url,
        consent: async (to) => {
          if (asked++ > 0) throw new Error("asked to sign in again");
          return consent("Allow")(to);
        },
      });
      const run = await queueWaits(agent);
      await queueWaits(agent);
      // It looks at once, as after any change of what it shares.
      cli.store((store) => store.projects.bumpSharingVersion());
      await becomes(() => statusOf(agent, run), "running");
      const held = agent.call("get_graph_run", { command_id: run, wait_seconds: 50 });

      await page.goto(`${endpoint.url}/account`);
      await rowOf("Official client").getByRole("button", { name: "Revoke" }).click();
      await rowOf("Official client").waitFor({ state: "detached" });

      expect((await held).content[0]?.text).toBe("Graph run not found or access removed");
      // Neither its token nor a new one: the client knows no other way than a new sign-in.
      await expect(agent.call("get_graph_run", { command_id: run })).rejects.toThrow(
        "asked to sign in again",
      );
      // What ran was told to stop; what waited never began.
      await becomes(() => history(cli)[0]?.status, "cancelled");
      expect(history(cli)).toHaveLength(1);
      await page.goto(`${endpoint.url}/account/activity`);
      const shown = async () => (await page.reload()) && page.locator("main").textContent();
      await becomes(async () => (await shown())?.match(/ran waits in My laptop cancelled/g)?.length, 2);
      expect(await shown()).toContain("Agent “Official client” revoked");

      await page.goto(`${endpoint.url}/account`);
      await rowOf("Ada’s laptop").getByRole("button", { name: "Remove" }).click();
      await rowOf("Ada’s laptop").waitFor({ state: "detached" });
      cli.store((store) => store.projects.bumpSharingVersion());
      expect((await relay.ended).code).toBe(EXIT_CODES.device_removed[0]);
    });
  });
});
