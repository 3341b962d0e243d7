import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { EXIT_CODES } from "../../relay-cli/exit-codes.ts";
import { Cli } from "../relay/support/cli.ts";
import { openTunnel } from "../relay/support/tunnel.ts";
import { startTestEndpoint, type TestEndpoint } from "../support/endpoint.ts";

// The relay's own command line against a real endpoint, with the owner's browser at hand.

let endpoint: TestEndpoint;
let cli: Cli;
beforeAll(async () => {
  endpoint = await startTestEndpoint();
  cli = new Cli();
});
afterAll(async () => {
  await cli?.remove();
  await endpoint?.stop();
});

/** Runs a command that wants a page opened, allows what the page asks, and takes the answer to the command. */
async function inBrowser(words: readonly string[]) {
  const command = cli.spawn([...words, "--no-browser"]);
  let seen = "";
  const page = new Promise<string>((done) => {
    command.child.stderr.on("data", (chunk) => {
      seen += chunk;
      const found = /^http\S+\/authorize\?\S+$/m.exec(seen)?.[0];
      if (found !== undefined) done(found);
    });
  });
  const url = await Promise.race([page, command.ended]);
  if (typeof url === "string") {
    const answer = await fetch(await endpoint.owner.approve(url));
    expect(answer.status).toBe(200);
    expect(answer.headers.get("content-security-policy")).toBe("default-src 'none'");
  }
  return command.ended;
}

describe("pairing", () => {
  test("through the browser: the owner sees which machine, and the terminal goes on by itself", async () => {
    const { code, stderr } = await inBrowser(["login", endpoint.url, "--name", "My laptop"]);
    expect(stderr).toContain("Paired My laptop with Owner");
    expect(code).toBe(0);
    expect(stderr).toContain("device_name=My+laptop");
    expect(stderr).toMatch(/device_thumbprint=[\w-]{43}/);
    const { stdout } = await cli.run(["projects", "--json"]);
    expect(JSON.parse(stdout)).toMatchObject([{ enabled: false, shared: [], problem: null }]);
  });

  test("a pairing that holds is not thrown away by a second login", async () => {
    const { code, stderr } = await cli.run(["login", endpoint.url, "--code"], { stdin: "X" });
    expect(code).toBe(EXIT_CODES.usage[0]);
    expect(stderr).toContain("logout");
  });

  test("without anybody at the terminal nothing is begun that would wait for nobody", async () => {
    const other = new Cli();
    const { code, stderr } = await other.run(["login", endpoint.url]);
    expect(code).toBe(EXIT_CODES.not_paired[0]);
    expect(stderr).toContain("--no-browser");
    const call = await other.run(["call", "folder-report", "--url", endpoint.url]);
    expect(call.code).toBe(EXIT_CODES.not_paired[0]);
    await other.remove();
  });

  test("a wrong enrolment code is refused with what to do", async () => {
    const other = new Cli();
    const { code, stderr } = await other.run(["login", endpoint.url, "--code"], { stdin: "WRONG-CODE" });
    expect(code).toBe(EXIT_CODES.failed[0]);
    expect(stderr).toContain("account page");
    await other.remove();
  });

  test("an address that is no endpoint is said to be none", async () => {
    const other = new Cli();
    const { code, stderr } = await other.run([
      "login",
      `${endpoint.url.replace(/:\d+$/, ":9")}`,
      "--no-browser",
    ]);
    expect(code).toBe(EXIT_CODES.unreachable[0]);
    expect(stderr).toContain("cannot be reached");
    await other.remove();
  });

  test("logging out takes the machine off on both sides, and it can be paired again with a code", async () => {
    expect((await cli.run(["logout"])).code).toBe(0);
    expect((await cli.run(["projects"])).code).toBe(EXIT_CODES.not_paired[0]);
    const code = await endpoint.owner.enrolmentCode();
    expect((await cli.run(["login", endpoint.url, "--code"], { stdin: `${code}\n` })).code).toBe(0);
  });
});

describe("calling", () => {
  test("signs in as an agent, and says when nothing is shared", async () => {
    const { code, stderr } = await inBrowser(["call", "folder-report"]);
    expect(stderr).toContain("Nothing is shared");
    expect(code).toBe(EXIT_CODES.usage[0]);
  });

  /** Asks, starts the relay once the run is queued, and waits for the end of both. */
  async function callAndRun(words: readonly string[], env: Record<string, string> = {}) {
    const call = cli.spawn(["call", ...words], { env });
    await Promise.race([call.says("Queued as"), call.ended]);
    const relay = cli.spawn(["start"]);
    await relay.says("Connected as");
    const ended = await call.ended;
    relay.child.kill("SIGTERM");
    expect((await relay.ended).code).toBe(0);
    return ended;
  }
  const runs = () => cli.store((store) => store.history.list(100).length);

  test("asks, waits and prints the result, without signing in again", async () => {
    await cli.run(["graph", "add", "relay-cli/templates/folder-report.mjs", "--folder", "docs"]);
    expect((await cli.run(["share", "folder-report"])).code).toBe(0);
    const relay = cli.spawn(["start"]);
    await relay.says("now sees 1 Graph(s)");
    relay.child.kill("SIGTERM");
    await relay.ended;
    const { code, stdout, stderr } = await callAndRun(["folder-report", "{}"]);
    expect(stderr).not.toContain("authorize");
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ complete: true });
  });

  test("a ticket that a proxy loses twice is asked for again with the same key: one run", async () => {
    const tunnel = await openTunnel();
    tunnel.lose("run_graph_session", 2);
    const before = runs();
    const { code, stdout } = await callAndRun(["folder-report", '{"ignore":["x"]}'], {
      HTTP_PROXY: tunnel.url,
    });
    await tunnel.close();
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ complete: true });
    expect(tunnel.lost()).toBe(2);
    expect(runs() - before).toBe(1);
  });

  test("a call that dies without its ticket is gone on with by the next same call: one run", async () => {
    const tunnel = await openTunnel();
    tunnel.lose("run_graph_session", 1_000);
    const before = runs();
    const words = ["folder-report", '{"ignore":["y"]}'];
    const first = cli.spawn(["call", ...words], { env: { HTTP_PROXY: tunnel.url } });
    while (tunnel.lost() === 0) await new Promise((done) => setTimeout(done, 20));
    first.child.kill("SIGKILL");
    await first.ended;
    await tunnel.close();
    expect((await callAndRun(words)).code).toBe(0);
    expect(runs() - before).toBe(1);
    // With its ticket in hand, the next same call is another run.
    expect((await callAndRun(words)).code).toBe(0);
    expect(runs() - before).toBe(2);
  });

  test("NO_PROXY keeps the endpoint's address from going through the proxy", async () => {
    const tunnel = await openTunnel();
    for (const NO_PROXY of ["localhost", new URL(endpoint.url).host, "*"]) {
      const { code } = await cli.run(["projects"], { env: { HTTP_PROXY: tunnel.url, NO_PROXY } });
      expect(code).toBe(0);
    }
    expect(tunnel.targets).toEqual([]);
    expect((await cli.run(["projects"], { env: { http_proxy: tunnel.url } })).code).toBe(0);
    expect(tunnel.targets).toContain(new URL(endpoint.url).host);
    await tunnel.close();
  });

  test("a registration that the endpoint has forgotten is made anew, with the sign-in", async () => {
    await endpoint.kill9();
    await endpoint.sql("DELETE FROM oauth_store");
    await endpoint.restart();
    const { code, stderr } = await inBrowser(["call", "nothing-of-this-name"]);
    expect(stderr).toContain("Signing in again");
    expect(stderr).toContain("No shared Graph is called");
    expect(code).toBe(EXIT_CODES.usage[0]);
  });

  test("a Graph that fails is told by an exit code of its own", async () => {
    const { code, stderr } = await callAndRun(["folder-report", '{"folder":"/"}']);
    expect(code).toBe(EXIT_CODES.graph_failed[0]);
    expect(stderr).toContain("ended as failed");
  });
});
