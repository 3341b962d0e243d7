import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import page from "../../docs/costs.md?raw";
import { withoutPadding } from "../../scripts/lib/docs-tables.ts";
import { authenticateAgent } from "../../src/worker/oauth/agent-token.ts";
import { type D1Cost, meterD1 } from "./support/d1-meter.ts";
import {
  addAgent,
  addProject,
  callTool,
  cancel,
  connect,
  get,
  giveAccess,
  newAccount,
  rpc,
  run,
  session,
  TestDevice,
  useDatabase,
  uuid,
} from "./support/endpoint.ts";
import { connectAgent, newOwner, ORIGIN } from "./support/people.ts";

// What each call costs in D1. The table in docs/costs.md is this one; a failure prints it anew.

const meter = meterD1(env.DB);
useDatabase(meter.db);
afterAll(() => useDatabase(env.DB));

/** Other people's projects and sessions. */
async function crowd(accounts: number): Promise<void> {
  for (let i = 0; i < accounts; i++) {
    const { account_id, device_id } = await newAccount();
    const project = await addProject(account_id);
    await addAgent(account_id, [project]);
    await env.DB.prepare(
      `INSERT INTO graph_sessions (project_id, graph_session_id, device_id, name, description, slug, version, status, first_shared_at)
       SELECT ?1, 'gs_' || ?1 || value, ?2, 'n', '', 's', '1', 'ready', 1 FROM json_each(?3)`,
    )
      .bind(project, device_id, JSON.stringify(Array.from({ length: 100 }, (_, n) => n)))
      .run();
  }
}

/** One row past all others in each index: a search that ends at an index's last row reads one row fewer. */
async function lastRows(): Promise<void> {
  const [long, project] = ["f".repeat(32), `prj_${"f".repeat(12)}`];
  await env.DB.batch(
    [
      `INSERT INTO accounts (id, name, created_at) VALUES ('acc_${long}', '', 0)`,
      `INSERT INTO projects (id, account_id, name, settings, created_at) VALUES ('${project}', 'acc_${long}', '', '{}', 0)`,
      `INSERT INTO devices (id, account_id, name, platform, client_version, public_jwk, thumbprint, created_at) VALUES ('dev_${long}', 'acc_${long}', '', '', '', '', 'f', 0)`,
      `INSERT INTO agents (id, account_id, client_id, name, scopes, redirect_host, created_at) VALUES ('agt_${long}', 'acc_${long}', '', '', '', '', 0)`,
      `INSERT INTO agent_projects (agent_id, project_id, connected_at) VALUES ('agt_${long}', '${project}', 0)`,
      `INSERT INTO graph_sessions (project_id, graph_session_id, device_id, name, description, slug, version, status, first_shared_at) VALUES ('${project}', 'gs_${long}', 'dev_${long}', '', '', '', '', 'ready', 0)`,
    ].map((sql) => env.DB.prepare(sql)),
  );
}

async function measure(): Promise<Record<string, D1Cost>> {
  const costs: Record<string, D1Cost> = {};
  const cost = async (name: string, work: () => Promise<unknown>) => {
    meter.spent();
    const result = await work();
    costs[name] = meter.spent();
    return result;
  };
  const { account_id, device_id } = await newAccount();
  const projects = [await addProject(account_id), await addProject(account_id)];
  const [one = "", two = ""] = projects;
  const agent = await addAgent(account_id, [one, two]);
  for (const project of projects) await giveAccess(project, [agent], [device_id]);
  const device = new TestDevice(account_id, device_id, projects);
  const set = [session(), session(), session(), session()];
  await device.sync(two, set.slice(0, 2));

  await cost("`sync`, the digest is new", () => device.sync(one, set, false));
  await cost("`sync`, 4 sessions, all new", () => device.sync(one, set));
  await cost("`sync`, unchanged: the pass every 20 s", () => device.sync(one, set));
  const [first = session(), ...rest] = set;
  await cost("`sync`, 4 sessions, 1 changed", () =>
    device.sync(one, [{ ...first, status: "running" }, ...rest]),
  );
  await cost("`sync`, 1 of 4 unshared", () => device.sync(one, rest));
  await cost("`sync`, that 1 shared again", () => device.sync(one, set));

  await cost("`initialize`, `server/discover`, `tools/list`, `ping`", async () => {
    await rpc("2026-07-28", "server/discover", {}, { auth: agent });
    await rpc("2025-11-25", "tools/list", {}, { auth: agent });
  });
  await cost("`list_graph_sessions`, 2 projects, 6 sessions", () =>
    callTool(agent, "list_graph_sessions", {}),
  );
  await cost("`list_graph_sessions`, 1 project, 4 sessions", () =>
    callTool(agent, "list_graph_sessions", { project_id: one }),
  );
  const session_id = first.graph_session_id;
  let ticket: Awaited<ReturnType<typeof run>> | undefined;
  await cost("`run_graph_session`, shared with 2 projects", async () => {
    ticket = await run(agent, session_id);
  });
  await cost("`run_graph_session`, shared with 1", () => run(agent, rest[2]?.graph_session_id ?? ""));
  const id = String(ticket?.structuredContent.command_id);
  await cost("`get_graph_run`", () => get(agent, id));
  const attempt = uuid();
  await cost("`start`, `control`, `complete`", async () => {
    await device.start(id, attempt);
    await device.call(`/commands/${id}/control`, { attempt_id: attempt });
    await device.complete(id, attempt);
  });
  await cost("`cancel_graph_run`", () => cancel(agent, id));
  const later = await addProject(account_id);
  await connect(agent.agent_id, later, 9000);
  await cost("`get_graph_run`, a project connected after the token was given", () =>
    get(agent, `${later.slice(4, 12)}-${later.slice(12)}-8000-8000-000000000000`),
  );

  const owner = await newOwner();
  const connected = await connectAgent(owner);
  const request = new Request(`${ORIGIN}/mcp`, {
    headers: { authorization: `Bearer ${connected.access_token}` },
  });
  await cost("the agent's token itself, on top of each call", () =>
    authenticateAgent(request, { ...env, DB: meter.db, PROJECT_QUEUE: env.PROJECT_QUEUE }),
  );
  return costs;
}

const asTable = (costs: Record<string, D1Cost>) =>
  [
    "| call | queries | rows read | rows written |",
    "| --- | --- | --- | --- |",
    ...Object.entries(costs).map(([name, c]) => `| ${name} | ${c.queries} | ${c.read} | ${c.written} |`),
  ].join("\n");

it("costs each call the rows that docs/costs.md says, however many others there are", async () => {
  await lastRows();
  await crowd(3);
  const few = asTable(await measure());
  await crowd(50);
  expect(asTable(await measure())).toBe(few);
  const documented = /<!-- measured: d1 -->\n([\s\S]*?)\n<!-- end -->/.exec(page)?.[1];
  expect(documented && withoutPadding(documented), "docs/costs.md should have the table printed here").toBe(
    few,
  );
});

it("finds every row by an index", async () => {
  const scans: string[] = [];
  for (const sql of meter.statements) {
    const bound = Math.max(0, ...[...sql.matchAll(/\?(\d*)/g)].map((m, i) => Number(m[1] || i + 1)));
    const { results } = await env.DB.prepare(`EXPLAIN QUERY PLAN ${sql}`)
      .bind(...Array(bound).fill("[]"))
      .all<{ detail: string }>();
    // A set that was sent, and rows that are already found, are gone through one by one.
    for (const { detail } of results)
      if (/^SCAN (?!json_each|connected|c$|sent|foreign_rows|\()/.test(detail))
        scans.push(`${sql}: ${detail}`);
  }
  expect(meter.statements.size).toBeGreaterThan(5);
  expect(scans).toEqual([]);
});
