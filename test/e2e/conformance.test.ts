import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { freePort, startTestEndpoint, type TestEndpoint } from "../support/endpoint.ts";
import { registerClient, signInAgent } from "../support/sign-in.ts";
import { startTokenProxy, type TokenProxy } from "../support/token-proxy.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const SUITE = join(ROOT, "node_modules/@modelcontextprotocol/conformance/dist/index.js");
const BASELINE = join(import.meta.dirname, "conformance-baseline.yml");

let endpoint: TestEndpoint;
let proxy: TokenProxy;
let results: string;
beforeAll(async () => {
  endpoint = await startTestEndpoint();
  const { access_token } = await signInAgent(endpoint);
  proxy = await startTokenProxy(endpoint.url, access_token);
  results = mkdtempSync(join(tmpdir(), "graph-relay-conformance-"));
});
afterAll(async () => {
  await proxy?.close();
  await endpoint?.stop();
  rmSync(results, { recursive: true, force: true });
});

/** Runs the suite's program; the answer is its exit code and what it printed. */
function conformance(
  args: string[],
  onOutput: (text: string) => void = () => {},
): Promise<{ code: number | null; output: string }> {
  return new Promise((done, fail) => {
    const child = spawn(process.execPath, [SUITE, ...args, "-o", results], { cwd: results });
    let output = "";
    const take = (data: Buffer) => {
      output += data.toString();
      onOutput(output);
    };
    child.stdout.on("data", take);
    child.stderr.on("data", take);
    child.on("error", fail).on("close", (code) => done({ code, output }));
  });
}

/** Every scenario that a server of four tools can take, with the revisions it is there for. */
const SCENARIOS: Record<string, readonly string[]> = {
  "server-initialize": ["2025-06-18", "2025-11-25"],
  ping: ["2025-06-18", "2025-11-25"],
  "tools-list": ["2025-06-18", "2025-11-25", "2026-07-28"],
  "dns-rebinding-protection": ["2025-11-25", "2026-07-28"],
  "server-session-lifecycle": ["2025-03-26", "2025-06-18", "2025-11-25"],
  "server-sse-multiple-streams": ["2025-11-25", "2026-07-28"],
  "server-sse-polling": ["2025-11-25"],
  "http-header-validation": ["2026-07-28"],
  "server-stateless": ["2026-07-28"],
  caching: ["2026-07-28"],
  "input-required-result-unsupported-methods": ["2026-07-28"],
  "input-required-result-validate-input": ["2026-07-28"],
  "input-required-result-ignore-extra-params": ["2026-07-28"],
  "input-required-result-missing-input-response": ["2026-07-28"],
  "sep-2164-resource-not-found": ["2026-07-28"],
};

describe("the MCP conformance suite", () => {
  for (const [scenario, revisions] of Object.entries(SCENARIOS)) {
    it.each(revisions)(`${scenario}, revision %s`, async (revision) => {
      const { code, output } = await conformance([
        "server",
        "--url",
        `${proxy.url}/mcp`,
        "--scenario",
        scenario,
        "--spec-version",
        revision,
        "--expected-failures",
        BASELINE,
      ]);
      expect(output).not.toContain("SKIPPED: scenario");
      expect(code, output).toBe(0);
    });
  }

  it("authorization server: its metadata, and a code for a token", async () => {
    const port = await freePort();
    const client = await registerClient(endpoint, "Conformance", `http://127.0.0.1:${port}/callback`);
    let asked: string | undefined;
    // The suite prints the address that a person would open.
    const approve = (output: string) => {
      const [url] = /http:\/\/localhost:\S+\/authorize\?\S+(?=\s)/.exec(output) ?? [];
      if (url === undefined || asked !== undefined) return;
      asked = url;
      void endpoint.owner.approve(url).then((callback) => fetch(callback));
    };
    const { code, output } = await conformance(
      [
        "authorization",
        "--url",
        endpoint.url,
        "--client-id",
        client,
        "--resource",
        `${endpoint.url}/mcp`,
        "--port",
        String(port),
      ],
      approve,
    );
    expect(asked, output).toBeDefined();
    expect(code, output).toBe(0);
    expect(output).not.toMatch(/FAILURE|WARNING|SKIPPED: /);
  });
});
