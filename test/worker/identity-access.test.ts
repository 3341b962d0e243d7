import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { CANCEL_REASONS } from "../../src/protocol/errors.ts";
import { newCommandId, newId, newUuid } from "../../src/protocol/ids.ts";
import { systemRandom } from "../../src/protocol/ports.ts";
import { everyMinute } from "../../src/worker/scheduled.ts";
import {
  connectAgent,
  newOwner,
  newProject,
  pairDevice,
  type TestAgent,
  type TestDevice,
  type TestOwner,
} from "./support/people.ts";

const queue = (projectId: string) => env.PROJECT_QUEUE.getByName(projectId);
const behind = (owner: TestOwner) =>
  env.DB.prepare(
    "SELECT count(*) AS n FROM projects WHERE account_id = ? AND access_applied <> access_version",
  )
    .bind(owner.account_id)
    .first<number>("n");
const mayUse = async (agent: TestAgent, projectId: string) =>
  (await queue(projectId).presence({ agent_id: agent.agent_id })) !== undefined;
const enqueue = (agent: TestAgent, device: TestDevice, projectId: string) =>
  queue(projectId).enqueue({
    agent_id: agent.agent_id,
    command_id: newCommandId(projectId, systemRandom),
    graph_session_id: newId("gs", systemRandom),
    device_id: device.device_id,
    slug: "report",
    arguments_json: "{}",
    idempotency_key: newUuid(systemRandom),
  });

afterEach(() => {
  vi.useRealTimers();
});

describe("access", () => {
  it("is in the project's object before the client has its code", async () => {
    const owner = await newOwner();
    const second = await newProject(owner, "Second");
    const agent = await connectAgent(owner, { projectIds: [second] });
    expect(await mayUse(agent, second)).toBe(true);
    expect(await mayUse(agent, owner.project_id)).toBe(false);
    expect(await behind(owner)).toBe(0);
  });

  it("to a project ends when the owner connects the agent again without it", async () => {
    const owner = await newOwner();
    const second = await newProject(owner, "Second");
    const agent = await connectAgent(owner);
    await connectAgent(owner, { clientId: agent.client_id, projectIds: [second] });
    expect(await mayUse(agent, owner.project_id)).toBe(false);
    expect(await mayUse(agent, second)).toBe(true);
  });

  it("to one project ends on the account page, and to the others does not", async () => {
    const owner = await newOwner();
    const second = await newProject(owner, "Second");
    const agent = await connectAgent(owner);
    await owner.browser.submit("/account/agents/disconnect", {
      agent_id: agent.agent_id,
      project_id: second,
    });
    expect(await mayUse(agent, second)).toBe(false);
    expect(await mayUse(agent, owner.project_id)).toBe(true);
    const stranger = await newOwner("Stranger");
    await expect(
      stranger.browser.submit("/account/agents/disconnect", {
        agent_id: agent.agent_id,
        project_id: owner.project_id,
      }),
    ).rejects.toThrow("404");
    expect(await mayUse(agent, owner.project_id)).toBe(true);
  });

  it("to one project ends while a call is held there: it is refused, what is queued is cancelled, what runs is told to stop", async () => {
    const owner = await newOwner();
    const second = await newProject(owner, "Second");
    const agent = await connectAgent(owner);
    const device = await pairDevice(owner);
    const running = await enqueue(agent, device, second);
    const queued = await enqueue(agent, device, second);
    const elsewhere = await enqueue(agent, device, owner.project_id);
    if (!running.ok || !queued.ok || !elsewhere.ok) throw new Error("not queued");
    const attempt = {
      device_id: device.device_id,
      command_id: running.run.command_id,
      attempt_id: newUuid(systemRandom),
    };
    await queue(second).start(attempt);
    const of = (answer: typeof running, wait_ms: number) => ({
      agent_id: agent.agent_id,
      command_id: answer.run.command_id,
      wait_ms,
    });
    const held = [running, queued].map((answer) => queue(second).getRun(of(answer, 40_000)));
    await owner.browser.submit("/account/agents/disconnect", {
      agent_id: agent.agent_id,
      project_id: second,
    });
    expect(await Promise.all(held)).toEqual([undefined, undefined]);
    expect(await queue(second).control(attempt)).toMatchObject({ value: { cancel_requested: true } });
    expect(await queue(second).start({ ...attempt, command_id: queued.run.command_id })).toMatchObject({
      value: { go: false, status: "cancelled" },
    });
    expect(await queue(owner.project_id).getRun(of(elsewhere, 0))).toMatchObject({ status: "queued" });
  });

  it("ends with the agent: a queued run is cancelled, a running one is told to stop, and what it asks is refused", async () => {
    const owner = await newOwner();
    const agent = await connectAgent(owner);
    const other = await connectAgent(owner);
    const device = await pairDevice(owner);
    const running = await enqueue(agent, device, owner.project_id);
    const queued = await enqueue(agent, device, owner.project_id);
    const others = await enqueue(other, device, owner.project_id);
    if (!running.ok || !queued.ok || !others.ok) throw new Error("not queued");
    const attempt = {
      device_id: device.device_id,
      command_id: running.run.command_id,
      attempt_id: newUuid(systemRandom),
    };
    expect(await queue(owner.project_id).start(attempt)).toMatchObject({ ok: true, value: { go: true } });

    await owner.browser.submit("/account/agents/revoke", { agent_id: agent.agent_id });

    expect(await queue(owner.project_id).control(attempt)).toMatchObject({
      ok: true,
      value: { alive: true, cancel_requested: true },
    });
    expect(
      await queue(owner.project_id).start({ ...attempt, command_id: queued.run.command_id }),
    ).toMatchObject({
      ok: true,
      value: { go: false, status: "cancelled" },
    });
    expect(
      await queue(owner.project_id).getRun({
        agent_id: agent.agent_id,
        command_id: running.run.command_id,
        wait_ms: 0,
      }),
    ).toBeUndefined();
    expect(await enqueue(agent, device, owner.project_id)).toMatchObject({
      ok: false,
      error: "access_removed",
    });
    expect(
      await queue(owner.project_id).getRun({
        agent_id: other.agent_id,
        command_id: others.run.command_id,
        wait_ms: 0,
      }),
    ).toMatchObject({ status: "queued" });
  });

  it("refuses a call that is being held when the agent is revoked", async () => {
    const owner = await newOwner();
    const agent = await connectAgent(owner);
    const device = await pairDevice(owner);
    const run = await enqueue(agent, device, owner.project_id);
    if (!run.ok) throw new Error("not queued");
    const held = queue(owner.project_id).getRun({
      agent_id: agent.agent_id,
      command_id: run.run.command_id,
      wait_ms: 40_000,
    });
    await owner.browser.submit("/account/agents/revoke", { agent_id: agent.agent_id });
    expect(await held).toBeUndefined();
  });

  it("answers a call that is held for a laptop's queued run when the laptop is removed: it is cancelled, and why", async () => {
    const owner = await newOwner();
    const agent = await connectAgent(owner);
    const device = await pairDevice(owner);
    const run = await enqueue(agent, device, owner.project_id);
    if (!run.ok) throw new Error("not queued");
    const held = queue(owner.project_id).getRun({
      agent_id: agent.agent_id,
      command_id: run.run.command_id,
      wait_ms: 40_000,
    });
    await owner.browser.submit("/account/devices/remove", { device_id: device.device_id });
    expect(await held).toMatchObject({ status: "cancelled", reason: CANCEL_REASONS.device_removed });
  });

  it("of a laptop ends with it", async () => {
    const owner = await newOwner();
    const device = await pairDevice(owner);
    const sync = () =>
      queue(owner.project_id).sync({
        device_id: device.device_id,
        sessions_digest: "0".repeat(64),
        token_issued_at: Date.now(),
      });
    expect(await sync()).toMatchObject({ ok: true });
    await owner.browser.submit("/account/devices/remove", { device_id: device.device_id });
    expect(await sync()).toMatchObject({ ok: false, error: "device_removed" });
  });

  it("that did not reach its object is delivered by the next sweep", async () => {
    const owner = await newOwner();
    const agent = await connectAgent(owner);
    // As if the Worker had died between D1 and the object.
    await env.DB.batch([
      env.DB.prepare("DELETE FROM agent_projects WHERE agent_id = ?").bind(agent.agent_id),
      env.DB.prepare("UPDATE projects SET access_version = access_version + 1 WHERE id = ?").bind(
        owner.project_id,
      ),
    ]);
    expect(await mayUse(agent, owner.project_id)).toBe(true);
    await everyMinute(env);
    expect(await mayUse(agent, owner.project_id)).toBe(false);
    expect(await behind(owner)).toBe(0);
  });

  it("is delivered again when an object could not be reached, and the owner's page works meanwhile", async () => {
    const owner = await newOwner();
    const agent = await connectAgent(owner);
    const error = vi.spyOn(console, "error").mockImplementation(() => undefined);
    const broken = {
      ...env,
      PROJECT_QUEUE: {
        getByName: () => ({ applyAccess: () => Promise.reject(new Error("overloaded")) }),
      } as never,
    };
    await env.DB.prepare("UPDATE projects SET access_version = access_version + 1 WHERE id = ?")
      .bind(owner.project_id)
      .run();
    await everyMinute(broken);
    expect(error).toHaveBeenCalled();
    error.mockRestore();
    expect(await behind(owner)).toBe(1);
    await everyMinute(env);
    expect(await behind(owner)).toBe(0);
    expect(await mayUse(agent, owner.project_id)).toBe(true);
  });
});

describe("a project whose row cannot be read", () => {
  it("keeps no other from its delivery, and the minute from none of its parts", async () => {
    const [odd, owner] = [await newOwner("Odd"), await newOwner()];
    const agent = await connectAgent(owner);
    const error = vi.spyOn(console, "error").mockImplementation(() => undefined);
    const set = (settings: string) =>
      env.DB.prepare("UPDATE projects SET settings = ?, access_version = access_version + 1 WHERE id = ?")
        .bind(settings, odd.project_id)
        .run();
    await set('{"lease_seconds":"s3cret"}');
    await env.DB.batch([
      env.DB.prepare("DELETE FROM agent_projects WHERE agent_id = ?").bind(agent.agent_id),
      env.DB.prepare("UPDATE projects SET access_version = access_version + 1 WHERE id = ?").bind(
        owner.project_id,
      ),
      env.DB.prepare(
        "INSERT INTO web_challenges (challenge_hash, kind, browser_hash, value, expires_at) VALUES ('x', 'provider', '', '', 1)",
      ),
    ]);
    await everyMinute(env);
    expect(error).toHaveBeenCalled();
    error.mockRestore();
    expect(await mayUse(agent, owner.project_id)).toBe(false);
    expect([await behind(owner), await behind(odd)]).toEqual([0, 1]);
    expect(await env.DB.prepare("SELECT 1 FROM web_challenges WHERE challenge_hash = 'x'").first()).toBe(
      null,
    );
    await set("{}");
    await everyMinute(env);
    expect(await behind(odd)).toBe(0);
  });
});

describe("the sweep", () => {
  it("deletes what has expired and nothing else", async () => {
    const owner = await newOwner();
    const agent = await connectAgent(owner);
    await owner.browser.enrolmentCode();
    await pairDevice(owner);
    const rows = async (table: string) =>
      env.DB.prepare(`SELECT count(*) AS n FROM ${table}`).first<number>("n");
    await everyMinute(env);
    expect(await rows("one_time_codes")).toBeGreaterThan(0);
    expect(await rows("used_assertions")).toBeGreaterThan(0);
    const tokens = () =>
      env.DB.prepare("SELECT count(*) AS n FROM oauth_store WHERE key LIKE 'token:%'").first<number>("n");
    expect(await tokens()).toBeGreaterThan(0);
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 8 * 24 * 3600_000 });
    await everyMinute(env);
    expect(await rows("one_time_codes")).toBe(0);
    expect(await rows("used_assertions")).toBe(0);
    expect(await rows("web_sessions")).toBe(0);
    expect(await tokens()).toBe(0);
    expect(
      await env.DB.prepare("SELECT count(*) AS n FROM oauth_store WHERE key = ?")
        .bind(`client:${agent.client_id}`)
        .first("n"),
    ).toBe(1);
    expect(
      await env.DB.prepare("SELECT count(*) AS n FROM oauth_store WHERE key LIKE ?")
        .bind(`grant:${owner.account_id}:%`)
        .first("n"),
    ).toBe(1);
  });
});
