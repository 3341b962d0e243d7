import { env } from "cloudflare:workers";
import { afterEach, expect, it, vi } from "vitest";
import { OwnerBrowser } from "../../scripts/lib/owner-browser.ts";
import { invitation } from "../../scripts/lib/owner-link.ts";
import { systemClock, systemRandom } from "../../src/protocol/ports.ts";
import { deleteAccount } from "../../src/worker/account-deletion.ts";
import { database } from "../../src/worker/db/client.ts";
import { accountOfIdentity, identitiesOfAccount } from "../../src/worker/db/identities.ts";
import { authenticateAgent } from "../../src/worker/oauth/agent-token.ts";
import { everyMinute } from "../../src/worker/scheduled.ts";
import { Authenticator } from "./support/authenticator.ts";
import { postFrom } from "./support/forms.ts";
import {
  assertion,
  callWorker,
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
      .filter((detail) => !/USING INDEX (?:projects_behind|projects_leaving|accounts_leaving)$/.test(detail))
      .filter((detail) => /^SCAN (?!CONSTANT ROW|\(|json_each|i\b)/.test(detail))
  );
}

const SETTINGS = {
  ...{ queue_expiry_seconds: "1", queue_expiry_seconds_unit: "days" },
  ...{ lease_seconds: "90", lease_seconds_unit: "seconds" },
  ...{ retention_seconds: "1", retention_seconds_unit: "days" },
  ...{ max_queued_per_project: "9", max_queued_per_agent: "9" },
};

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
    const invited = await invitation({ clock: systemClock, random: systemRandom });
    await env.DB.batch(invited.sql.map((sql) => env.DB.prepare(sql)));
    const newcomer = new OwnerBrowser(ORIGIN, callWorker);
    const authenticator = new Authenticator(ORIGIN);
    const signUp = { name: "New", code: invited.code };
    const created = await (await postFrom(newcomer, "/sign-up", "/sign-up/options", signUp)).json();
    await postFrom(newcomer, "/sign-up", "/sign-up", {
      credential: await authenticator.create(created as never),
    });
    const asked = await (await postFrom(newcomer, "/sign-in", "/sign-in/passkey/options")).json();
    await postFrom(newcomer, "/sign-in", "/sign-in/passkey", {
      credential: await authenticator.get(asked as never),
    });
    await postFrom(newcomer, "/account", "/account/passkeys/remove", { credential_id: "x" });
    await postFrom(newcomer, "/account", "/account/provider/remove", { issuer: "x" });
    await accountOfIdentity(database(env.DB), "x", "y");
    await identitiesOfAccount(database(env.DB), owner.account_id);
    await owner.browser.request("/account/activity");
    await (await postFrom(owner.browser, "/account", "/account/export")).text();
    const connected = await connectAgent(owner);
    await owner.browser.submit("/account/agents/disconnect", {
      agent_id: connected.agent_id,
      project_id: owner.project_id,
    });
    const project = { project_id: owner.project_id };
    await owner.browser.request(`/account/projects/${owner.project_id}`);
    await owner.browser.submit("/account/projects/rename", { ...project, name: "Renamed" });
    await owner.browser.submit("/account/projects/settings", { ...project, ...SETTINGS });
    await owner.browser.submit("/account/projects/delete", { ...project, confirm: "Renamed" });
    await deleteAccount(env, owner.account_id);
    await everyMinute(env);
  });
  const ours = [...statements].filter(
    (sql) => !/^INSERT INTO (?:accounts|projects|one_time_codes) .*VALUES \('/.test(sql),
  );
  expect(ours.length).toBeGreaterThan(70);
  const scans: Record<string, string[]> = {};
  for (const sql of ours) {
    const found = await scansOf(sql);
    if (found.length > 0) scans[sql] = found;
  }
  expect(scans).toEqual({});
});
