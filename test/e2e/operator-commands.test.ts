import { writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { OwnerBrowser } from "../../scripts/lib/owner-browser.ts";
import { CommandFailed, run } from "../../scripts/lib/processes.ts";
import { startTestEndpoint, type TestEndpoint } from "../support/endpoint.ts";
import { ScriptedDevice } from "../support/scripted-device.ts";
import { signInAgent } from "../support/sign-in.ts";

// The operator's own commands, as the documents have them, against an endpoint that runs.

const ROOT = resolve(import.meta.dirname, "../..");
const script = (name: string, ...words: string[]) =>
  run(process.execPath, [join(ROOT, "scripts", name), ...words], {
    cwd: ROOT,
    env: { ...process.env, WRANGLER_SEND_METRICS: "false", CI: "true" },
  });

let endpoint: TestEndpoint;
beforeAll(async () => {
  endpoint = await startTestEndpoint();
});
afterAll(() => endpoint?.stop());

describe("npm run owner:link", () => {
  const link = (...words: string[]) =>
    script(
      "owner-link.ts",
      ...["--persist-to", join(endpoint.state, "databases"), "--url", endpoint.url],
      ...words,
    );

  it("lets a new owner in, and lets them in again by their account's id", async () => {
    const said = await link("--name", "Ada");
    const [, account = ""] = /^Account (acc_[0-9a-f]{32})$/m.exec(said) ?? [];
    const [, first = ""] = /^(http\S+\/sign-in#\S+)$/m.exec(said) ?? [];
    const browser = new OwnerBrowser(endpoint.url);
    await browser.signIn(first);
    expect(await (await browser.request("/account")).text()).toContain("<h1>Ada</h1>");
    await expect(new OwnerBrowser(endpoint.url).signIn(first)).rejects.toThrow("wrong, used or expired");

    const [, again = ""] = /^(http\S+\/sign-in#\S+)$/m.exec(await link("--account", account)) ?? [];
    const other = new OwnerBrowser(endpoint.url);
    await other.signIn(again);
    expect(await (await other.request("/account")).text()).toContain("<h1>Ada</h1>");
  });

  it("says what is wrong with what it was given", async () => {
    for (const [words, says] of [
      [[], "Give one of"],
      [["--name", ""], "1 to 120 characters"],
      [["--account", "acc_1"], "32 hex digits"],
      [["--account", `acc_${"0".repeat(32)}`], "There is no account"],
      [["--name", "x", "--invite"], "Give one of"],
      [["--nmae", "x"], "--nmae"],
    ] as const) {
      const error = await link(...words).then(
        () => undefined,
        (failed: unknown) => failed,
      );
      expect(error).toBeInstanceOf(CommandFailed);
      expect((error as CommandFailed).code).toBe(2);
      expect((error as CommandFailed).output).toContain(says);
    }
  });
});

describe("npm run keys", () => {
  it("changes the signing key of an endpoint, and nobody is logged out", async () => {
    const device = await ScriptedDevice.pair(endpoint);
    const agent = await signInAgent(endpoint);
    const keys = async () => {
      const jwks = await (await fetch(`${endpoint.url}/.well-known/jwks.json`)).json();
      return (jwks as { keys: { kid: string }[] }).keys.map(({ kid }) => kid);
    };
    const [last] = await keys();
    const secret = await script("make-keys.ts", "--rotate", "--url", endpoint.url);
    const made = JSON.parse(secret) as { keys: { d?: string }[] };
    expect(made.keys.map(({ d }) => d !== undefined)).toEqual([true, false]);

    writeFileSync(join(endpoint.state, "signing-keys.json"), secret);
    await endpoint.restart();
    const now = await keys();
    expect(now).toHaveLength(2);
    expect(now[1]).toBe(last);
    // A token of the last key, a new one, the agent and the owner's browser: all as before.
    await device.sync([]);
    await ScriptedDevice.pair(endpoint);
    const asked = await fetch(`${endpoint.url}/mcp`, {
      method: "POST",
      headers: { authorization: `Bearer ${agent.access_token}`, "content-type": "application/json" },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping" }),
    });
    expect(asked.status).toBe(200);
    // The one after keeps the last one only: the oldest key ends.
    await expect(script("make-keys.ts", "--rotate", "--url", endpoint.url)).resolves.not.toContain(
      `"${last}"`,
    );
  });
});
