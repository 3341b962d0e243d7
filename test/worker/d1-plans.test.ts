import { env } from "cloudflare:workers";
import { afterEach, expect, it, vi } from "vitest";
import { authenticateAgent } from "../../src/worker/oauth/agent-token.ts";
import { everyMinute } from "../../src/worker/scheduled.ts";
import {
  assertion,
  connectAgent,
  deviceTokenRequest,
  newOwner,
  ORIGIN,
  pairDevice,
  tokenRequest,
} from "./support/people.ts";

// Whatever the code runs on D1 while it does its work, each statement must find its rows by an index. The
// statements are caught on their way, so that a new one cannot be left out.

afterEach(() => {
  vi.restoreAllMocks();
});

async function statementsOf(work: () => Promise<unknown>): Promise<Set<string>> {
  const seen = new Set<string>();
  const prepare = env.DB.prepare.bind(env.DB);
  const spy = vi.spyOn(env.DB, "prepare").mockImplementation((sql) => {
    seen.add(sql);
    return prepare(sql);
  });
  await work();
  spy.mockRestore();
  return seen;
}

/** The steps of a statement's plan that read a whole table. */
async function scansOf(sql: string): Promise<string[]> {
  const bound = Math.max(0, ...[...sql.matchAll(/\?(\d*)/g)].map((m, i) => Number(m[1] || i + 1)));
  const { results } = await env.DB.prepare(`EXPLAIN QUERY PLAN ${sql}`)
    .bind(...Array(bound).fill("x"))
    .all<{ detail: string }>();
  return (
    results
      .map((row) => row.detail)
      // These indexes hold nothing but the rows that are asked for.
      .filter((detail) => !/USING INDEX (?:projects_behind|accounts_leaving)$/.test(detail))
      .filter((detail) => /^SCAN (?!CONSTANT ROW|\(|json_each|i\b)/.test(detail))
  );
}

it("every statement of sign-in, consent, tokens, devices and sweeps uses an index", async () => {
  // The Worker's environment is the test's: what is prepared on it is seen here.
  const statements = await statementsOf(async () => {
    const owner = await newOwner();
    const agent = await connectAgent(owner);
    await authenticateAgent(
      new Request(`${ORIGIN}/mcp`, { headers: { authorization: `Bearer ${agent.access_token}` } }),
      env,
    );
    const again = {
      grant_type: "refresh_token",
      refresh_token: agent.refresh_token,
      client_id: agent.client_id,
    };
    await tokenRequest(again);
    await tokenRequest(again);
    const device = await pairDevice(owner);
    await deviceTokenRequest(await assertion(device));
    await owner.browser.request("/account");
    await owner.browser.submit("/account/agents/revoke", { agent_id: agent.agent_id });
    await owner.browser.submit("/account/devices/remove", { device_id: device.device_id });
    await everyMinute(env);
  });
  const ours = [...statements].filter(
    (sql) => !/^INSERT INTO (?:accounts|projects|one_time_codes) .*VALUES \('/.test(sql),
  );
  expect(ours.length).toBeGreaterThan(25);
  const scans: Record<string, string[]> = {};
  for (const sql of ours) {
    const found = await scansOf(sql);
    if (found.length > 0) scans[sql] = found;
  }
  expect(scans).toEqual({});
});
