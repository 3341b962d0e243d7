import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { newCommandId, newId, newUuid } from "../../src/protocol/ids.ts";
import { systemRandom } from "../../src/protocol/ports.ts";
import { RELAY_PATH } from "../../src/protocol/relay-api.ts";
import { deliverAccess } from "../../src/worker/access.ts";
import { authenticateAgent } from "../../src/worker/oauth/agent-token.ts";
import { everyMinute } from "../../src/worker/scheduled.ts";
import { alertOf, postFrom } from "./support/forms.ts";
import {
  assertion,
  callWorker,
  connectAgent,
  deviceTokenRequest,
  newOwner,
  newProject,
  ORIGIN,
  pairDevice,
  type TestOwner,
  tokenRequest,
} from "./support/people.ts";

const queue = (id: string) => env.PROJECT_QUEUE.getByName(id);

/** An account with something of everything. */
async function fullAccount(name: string) {
  const owner = await newOwner(name);
  const second = await newProject(owner, "Second");
  const agent = await connectAgent(owner, { clientName: `Agent of ${name}` });
  await tokenRequest({
    grant_type: "refresh_token",
    refresh_token: agent.refresh_token,
    client_id: agent.client_id,
  });
  const device = await pairDevice(owner, `Laptop of ${name}`);
  await owner.browser.enrolmentCode();
  const runs: string[] = [];
  for (const project of [owner.project_id, second]) {
    const command_id = newCommandId(project, systemRandom);
    runs.push(command_id);
    const answer = await queue(project).enqueue({
      agent_id: agent.agent_id,
      command_id,
      graph_session_id: newId("gs", systemRandom),
      device_id: device.device_id,
      slug: "report",
      arguments_json: '{"folder":"private"}',
      idempotency_key: newUuid(systemRandom),
    });
    expect(answer.ok).toBe(true);
  }
  await env.DB.prepare(
    "INSERT INTO graph_sessions (project_id, graph_session_id, device_id, name, description, slug, version, status, first_shared_at) VALUES (?, ?, ?, 'n', 'd', 's', '1', 'ready', 1)",
  )
    .bind(owner.project_id, newId("gs", systemRandom), device.device_id)
    .run();
  await env.DB.prepare(
    "INSERT INTO passkeys (credential_id, account_id, name, public_key, counter, transports, created_at) VALUES (?, ?, 'Phone', 'x', 0, '[]', 1)",
  )
    .bind(crypto.randomUUID(), owner.account_id)
    .run();
  await env.DB.prepare(
    "INSERT INTO identities (issuer, subject, account_id, created_at) VALUES ('https://i.example', ?, ?, 1)",
  )
    .bind(crypto.randomUUID(), owner.account_id)
    .run();
  await postFrom(owner.browser, "/account", "/account/passkeys/options", { name: "x" });
  return { owner, second, agent, device, runs };
}

/** Every row of every table that holds one of these ids anywhere. */
async function tracesOf(ids: string[]): Promise<string[]> {
  const { results } = await env.DB.prepare(
    "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name NOT LIKE '_cf_%' AND name <> 'd1_migrations'",
  ).all<{ name: string }>();
  const traces: string[] = [];
  for (const { name } of results) {
    const rows = await env.DB.prepare(`SELECT * FROM ${name}`).all();
    for (const row of rows.results) {
      const text = JSON.stringify(row);
      if (ids.some((id) => text.includes(id))) traces.push(`${name}: ${text}`);
    }
  }
  return traces;
}
const tablesOf = (projectId: string) =>
  runInDurableObject(queue(projectId), (_object, state) =>
    state.storage.sql.exec("SELECT name FROM sqlite_master WHERE name NOT LIKE '_cf_%'").toArray(),
  );
const deleteForm = (owner: TestOwner, confirm: string) =>
  postFrom(owner.browser, "/account/data", "/account/delete", { confirm });

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

describe("exporting", () => {
  it("gives everything held as one JSON document, and nothing of anybody else", async () => {
    const { owner, second, agent, device, runs } = await fullAccount("Ada");
    await fullAccount("Stranger");
    const response = await postFrom(owner.browser, "/account/data", "/account/export");
    expect(response.headers.get("content-disposition")).toContain("attachment");
    const text = await response.text();
    const data = JSON.parse(text) as Record<string, never[]> & { runs: Record<string, unknown[]> };
    expect(data.account).toMatchObject({ id: owner.account_id, name: "Ada" });
    expect(data.projects).toHaveLength(2);
    expect(data.agents).toMatchObject([{ id: agent.agent_id }]);
    expect(data.devices).toMatchObject([{ id: device.device_id }]);
    for (const table of [
      "agent_projects",
      "graph_sessions",
      "passkeys",
      "identities",
      "audit_events",
      "one_time_codes",
      "web_sessions",
    ])
      expect(data[table]?.length, table).toBeGreaterThan(0);
    expect(data.runs[owner.project_id]).toMatchObject([
      { command_id: runs[0], arguments_json: '{"folder":"private"}' },
    ]);
    expect(data.runs[second]).toMatchObject([{ command_id: runs[1] }]);
    expect(text).not.toContain("Stranger");
    expect(text).not.toMatch(/_hash"/);
  });

  it("goes through more runs than one page of them", async () => {
    const { owner, agent, device } = await fullAccount("Many");
    for (let i = 0; i < 19; i++) {
      const request = {
        agent_id: agent.agent_id,
        command_id: newCommandId(owner.project_id, systemRandom),
        graph_session_id: newId("gs", systemRandom),
        device_id: device.device_id,
        slug: "report",
        arguments_json: "{}",
        idempotency_key: newUuid(systemRandom),
      };
      expect((await queue(owner.project_id).enqueue(request)).ok).toBe(true);
    }
    const data = await (await postFrom(owner.browser, "/account/data", "/account/export")).json<{
      runs: Record<string, { command_id: string }[]>;
    }>();
    const ids = data.runs[owner.project_id]?.map((run) => run.command_id) ?? [];
    expect(ids).toHaveLength(20);
    expect(new Set(ids).size).toBe(20);
  });
});

describe("deleting the account", () => {
  it("leaves nothing of it in D1 or in any object, and everybody else's as it was", async () => {
    const { owner, second, agent, device, runs } = await fullAccount("Leaver");
    const stays = await fullAccount("Stayer");
    const strangersBefore = await tracesOf([stays.owner.account_id]);
    const held = queue(owner.project_id).getRun({
      agent_id: agent.agent_id,
      command_id: runs[0] ?? "",
      wait_ms: 40_000,
    });

    const response = await deleteForm(owner, "Leaver");
    expect(response.status).toBe(200);

    expect(await held).toBeUndefined();
    expect(
      await tracesOf([owner.account_id, owner.project_id, second, agent.agent_id, device.device_id]),
    ).toEqual([]);
    expect(await tablesOf(owner.project_id)).toEqual([]);
    expect(await tablesOf(second)).toEqual([]);
    expect(await tracesOf([stays.owner.account_id])).toEqual(strangersBefore);
    expect(await queue(stays.owner.project_id).presence({ agent_id: stays.agent.agent_id })).toBeDefined();

    expect((await owner.browser.request("/account")).status).toBe(303);
    const agents = new Request(`${ORIGIN}/mcp`, {
      headers: { authorization: `Bearer ${agent.access_token}` },
    });
    expect(await authenticateAgent(agents, env)).toMatchObject({ error: "invalid" });
    expect(
      (
        await tokenRequest({
          grant_type: "refresh_token",
          refresh_token: agent.refresh_token,
          client_id: agent.client_id,
        })
      ).status,
    ).toBe(400);
    expect((await deviceTokenRequest(await assertion(device))).status).toBe(401);
    const projects = await callWorker(`${ORIGIN}${RELAY_PATH}/projects`, {
      headers: { authorization: `Bearer ${device.token}` },
    });
    expect(projects.status).toBe(403);
    // A late delivery of access makes no object again.
    await deliverAccess(env, [owner.project_id, second]);
    await everyMinute(env);
    expect(await tablesOf(owner.project_id)).toEqual([]);
  });

  it("that is cut off half way is finished by the sweep, and lets nobody in meanwhile", async () => {
    const { owner, agent, device } = await fullAccount("Cut off");
    const link = await connectAgent(owner);
    vi.spyOn(console, "error").mockImplementation(() => undefined);
    const broken = vi.spyOn(env.PROJECT_QUEUE, "getByName").mockImplementation(() => {
      throw new Error("overloaded");
    });
    expect((await deleteForm(owner, "Cut off")).status).toBe(500);
    broken.mockRestore();
    expect((await owner.browser.request("/account")).status).toBe(303);
    const request = new Request(`${ORIGIN}/mcp`, {
      headers: { authorization: `Bearer ${link.access_token}` },
    });
    expect(await authenticateAgent(request, env)).toMatchObject({ error: "invalid" });
    expect((await deviceTokenRequest(await assertion(device))).status).toBe(403);
    expect(await tracesOf([owner.account_id])).not.toEqual([]);
    await everyMinute(env);
    expect(await tracesOf([owner.account_id, owner.project_id, agent.agent_id, device.device_id])).toEqual(
      [],
    );
    expect(await tablesOf(owner.project_id)).toEqual([]);
  });

  it("that meets a delivery of access on its way leaves no object behind", async () => {
    const { owner } = await fullAccount("Racer");
    const object = queue(owner.project_id);
    // The delivery has read D1 when the account goes, and reaches the object after.
    const late = {
      ...env,
      PROJECT_QUEUE: {
        getByName: () => ({
          applyAccess: async (access: Parameters<typeof object.applyAccess>[0]) => {
            await deleteForm(owner, "Racer");
            return object.applyAccess(access);
          },
          destroy: () => object.destroy(),
        }),
      } as never,
    };
    await deliverAccess(late, [owner.project_id]);
    expect(await tablesOf(owner.project_id)).toEqual([]);
  });

  it("needs the name typed and a fresh sign-in, as the export does", async () => {
    const owner = await newOwner("Careful");
    const refused = await deleteForm(owner, "careful");
    expect([refused.status, alertOf(await refused.text())]).toEqual([
      400,
      expect.stringContaining("not the account"),
    ]);
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 10 * 60_000 + 1_000 });
    expect((await deleteForm(owner, "Careful")).status).toBe(403);
    expect((await postFrom(owner.browser, "/account/data", "/account/export")).status).toBe(403);
    expect((await owner.browser.request("/account")).status).toBe(200);
  });
});

describe("the activity list", () => {
  it("tells what was allowed, refused, revoked, changed and run", async () => {
    const { owner, agent } = await fullAccount("Watcher");
    const query = new URLSearchParams({
      response_type: "code",
      client_id: agent.client_id,
      redirect_uri: "http://127.0.0.1:4711/callback",
      code_challenge: "a".repeat(43),
      code_challenge_method: "S256",
    });
    await owner.browser.deny(`${ORIGIN}/authorize?${query}`);
    await owner.browser.submit("/account/agents/revoke", { agent_id: agent.agent_id });
    const page = await (await owner.browser.request("/account/activity")).text();
    for (const entry of [
      "Signed in with a one-time link",
      "Project “Second” created",
      "Agent “Agent of Watcher” (127.0.0.1) allowed: 2 projects, read and run",
      "Agent “Agent of Watcher” (127.0.0.1) refused",
      "Agent “Agent of Watcher” revoked",
      "Enrolment code made",
      "Laptop “Laptop of Watcher” paired",
      'ran <span class="code">report</span> in My laptop <span class="tag">cancelled</span>',
      'ran <span class="code">report</span> in Second <span class="tag">cancelled</span>',
    ])
      expect(page).toContain(entry);
  });

  it("tells of a refresh token that came again, once", async () => {
    const owner = await newOwner();
    const agent = await connectAgent(owner, { clientName: "Stolen from" });
    const refresh = () =>
      tokenRequest({
        grant_type: "refresh_token",
        refresh_token: agent.refresh_token,
        client_id: agent.client_id,
      });
    await refresh();
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 91_000 });
    await refresh();
    await refresh();
    const page = await (await owner.browser.request("/account/activity")).text();
    expect(page.split("Agent “Stolen from” was signed out").length - 1).toBe(1);
  });

  it("is the owner's own", async () => {
    const owner = await newOwner();
    await connectAgent(owner, { clientName: "Private agent" });
    const stranger = await newOwner("Stranger");
    expect(await (await stranger.browser.request("/account/activity")).text()).not.toContain("Private agent");
  });
});
