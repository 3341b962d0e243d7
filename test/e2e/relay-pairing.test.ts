import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { EXIT_CODES } from "../../relay-cli/exit-codes.ts";
import { Cli } from "../relay/support/cli.ts";
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

  test("asks, waits and prints the result, without signing in again", async () => {
    await cli.run(["graph", "add", "relay-cli/templates/folder-report.mjs", "--folder", "docs"]);
    expect((await cli.run(["share", "folder-report"])).code).toBe(0);
    const relay = cli.spawn(["start"]);
    await relay.says("Connected as");
    const { code, stdout, stderr } = await cli.run(["call", "folder-report", "{}"]);
    expect(stderr).not.toContain("authorize");
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ complete: true });
    relay.child.kill("SIGTERM");
    expect((await relay.ended).code).toBe(0);
  });

  test("a Graph that fails is told by an exit code of its own", async () => {
    const relay = cli.spawn(["start"]);
    const { code, stderr } = await cli.run(["call", "folder-report", '{"folder":"/"}']);
    expect(code).toBe(EXIT_CODES.graph_failed[0]);
    expect(stderr).toContain("ended as failed");
    relay.child.kill("SIGTERM");
    await relay.ended;
  });
});
