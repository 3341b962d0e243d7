import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { authorizationScenarios, conformance } from "../support/conformance.ts";
import { freePort, startTestEndpoint, type TestEndpoint } from "../support/endpoint.ts";
import { registerClient, signInAgent } from "../support/sign-in.ts";
import { startTokenProxy, type TokenProxy } from "../support/token-proxy.ts";

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
      const { code, output } = await conformance(
        [
          "server",
          "--url",
          `${proxy.url}/mcp`,
          "--scenario",
          scenario,
          "--spec-version",
          revision,
          "--expected-failures",
          BASELINE,
        ],
        results,
      );
      expect(output).not.toContain("SKIPPED: scenario");
      expect(code, output).toBe(0);
    });
  }

  it("authorization server: its metadata, and a code for a token", async () => {
    const port = await freePort();
    const clientId = await registerClient(endpoint, "Conformance", `http://127.0.0.1:${port}/callback`);
    const { code, output } = await authorizationScenarios(
      { issuer: endpoint.url, clientId, port },
      results,
      async (page) => fetch(await endpoint.owner.approve(page)),
    );
    expect(code, output).toBe(0);
    expect(output).not.toMatch(/FAILURE|WARNING|SKIPPED: /);
  });
});
