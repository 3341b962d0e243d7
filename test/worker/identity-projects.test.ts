import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { newCommandId, newId, newUuid } from "../../src/protocol/ids.ts";
import { DEFAULT_SETTINGS } from "../../src/protocol/limits.ts";
import { systemRandom } from "../../src/protocol/ports.ts";
import { RELAY_PATH } from "../../src/protocol/relay-api.ts";
import { deliverAccess } from "../../src/worker/access.ts";
import { everyMinute } from "../../src/worker/scheduled.ts";
import { alertOf, csrfOf, post, postFrom } from "./support/forms.ts";
import {
  callWorker,
  connectAgent,
  deviceToken,
  newOwner,
  newProject,
  ORIGIN,
  pairDevice,
  type TestAgent,
  type TestDevice,
  type TestOwner,
} from "./support/people.ts";

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

const queue = (id: string) => env.PROJECT_QUEUE.getByName(id);
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
const queued = async (agent: TestAgent, device: TestDevice, projectId: string) => {
  const answer = await enqueue(agent, device, projectId);
  if (!answer.ok) throw new Error(`not queued: ${answer.error}`);
  return answer.run;
};
const pageOf = (owner: TestOwner, projectId: string) =>
  owner.browser.request(`/account/projects/${projectId}`);
const activity = async (owner: TestOwner) => (await owner.browser.request("/account/activity")).text();

/** The form as the page shows it, with changes. */
const settings = (change: Record<string, string> = {}) => ({
  queue_expiry_seconds: "1",
  queue_expiry_seconds_unit: "days",
  lease_seconds: "90",
  lease_seconds_unit: "seconds",
  retention_seconds: "30",
  retention_seconds_unit: "days",
  max_queued_per_project: "100",
  max_queued_per_agent: "20",
  ...change,
});
const save = (owner: TestOwner, projectId: string, change: Record<string, string>) =>
  postFrom(owner.browser, "/account", "/account/projects/settings", {
    project_id: projectId,
    ...settings(change),
  });
const stored = async (projectId: string) =>
  JSON.parse(
    (await env.DB.prepare("SELECT settings FROM projects WHERE id = ?").bind(projectId).first("settings")) ??
      "null",
  );

describe("a project's settings", () => {
  it("are shown with their ranges and defaults, and as they were saved", async () => {
    const owner = await newOwner();
    let page = await (await pageOf(owner, owner.project_id)).text();
    expect(page).toContain("5 minutes to 7 days; 1 day unless you change it");
    expect(page).toContain('name="lease_seconds" value="90"');
    const change = { queue_expiry_seconds: "90", queue_expiry_seconds_unit: "minutes", lease_seconds: "120" };
    const saved = (await save(owner, owner.project_id, change)).headers.get("location") ?? "";
    expect(await (await owner.browser.request(saved)).text()).toContain("Saved.");
    expect(await stored(owner.project_id)).toEqual({
      ...DEFAULT_SETTINGS,
      queue_expiry_seconds: 5400,
      lease_seconds: 120,
    });
    page = await (await pageOf(owner, owner.project_id)).text();
    expect(page).toContain('name="queue_expiry_seconds" value="90"');
    expect(page).toContain("<option selected>minutes</option>");
    expect(await activity(owner)).toContain("Settings of project “My laptop” changed");
  });

  it("are in the project's object before the page is back", async () => {
    const owner = await newOwner();
    const agent = await connectAgent(owner);
    const device = await pairDevice(owner);
    await save(owner, owner.project_id, {
      max_queued_per_agent: "1",
      queue_expiry_seconds: "5",
      queue_expiry_seconds_unit: "minutes",
    });
    const run = await queued(agent, device, owner.project_id);
    expect((run.expires_at ?? 0) - run.queued_at).toBe(5 * 60_000);
    expect(await enqueue(agent, device, owner.project_id)).toMatchObject({
      ok: false,
      error: "queue_full",
      scope: "agent",
      limit: 1,
    });
  });

  it.each([
    [{ queue_expiry_seconds: "4", queue_expiry_seconds_unit: "minutes" }, "5 minutes to 7 days"],
    [{ queue_expiry_seconds: "8" }, "5 minutes to 7 days"],
    [{ lease_seconds: "29" }, "30 seconds to 15 minutes"],
    [{ lease_seconds: "1", lease_seconds_unit: "weeks" }, "30 seconds to 15 minutes"],
    [{ lease_seconds: "30", lease_seconds_unit: "constructor" }, "30 seconds to 15 minutes"],
    [{ retention_seconds: "91" }, "1 hour to 90 days"],
    [{ retention_seconds: "1.5" }, "1 hour to 90 days"],
    [{ max_queued_per_project: "0" }, "1 to 1000"],
    [{ max_queued_per_agent: "1001" }, "1 to 1000"],
    [{ max_queued_per_agent: "-1" }, "1 to 1000"],
    [{ max_queued_per_agent: "" }, "1 to 1000"],
  ])("out of range %j are refused with the range, and none is changed", async (change, range) => {
    const owner = await newOwner();
    const answer = await save(owner, owner.project_id, change as Record<string, string>);
    expect([answer.status, alertOf(await answer.text())]).toEqual([400, expect.stringContaining(range)]);
    expect(await stored(owner.project_id)).toEqual(DEFAULT_SETTINGS);
  });
});

const remove = (owner: TestOwner, projectId: string, confirm: string) =>
  postFrom(owner.browser, "/account", "/account/projects/delete", { project_id: projectId, confirm });

const sync = async (device: TestDevice, projectId: string, token = device.token) => {
  const response = await callWorker(`${ORIGIN}${RELAY_PATH}/sync`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify({
      project_id: projectId,
      sessions_digest: "0".repeat(64),
      client_version: "0.1.0",
    }),
  });
  return { status: response.status, error: (await response.json<{ error?: string }>()).error };
};
const tablesOf = (projectId: string) =>
  runInDurableObject(queue(projectId), (_object, state) =>
    state.storage.sql.exec("SELECT name FROM sqlite_master WHERE name NOT LIKE '_cf_%'").toArray(),
  );
const rowsOf = async (projectId: string) => {
  const counts = await Promise.all(
    ["projects WHERE id", "agent_projects WHERE project_id", "graph_sessions WHERE project_id"].map((from) =>
      env.DB.prepare(`SELECT count(*) AS n FROM ${from} = ?`).bind(projectId).first<number>("n"),
    ),
  );
  const versions = await env.DB.prepare("SELECT count(*) AS n FROM devices WHERE set_versions LIKE ?")
    .bind(`%${projectId}%`)
    .first<number>("n");
  return [...counts, versions];
};

describe("deleting a project", () => {
  it("leaves nothing of it in D1 or its object, ends what waits and runs, and spares the others", async () => {
    const owner = await newOwner();
    const gone = await newProject(owner, "Old work");
    const agent = await connectAgent(owner);
    const device = await pairDevice(owner);
    const running = await queued(agent, device, gone);
    const waiting = await queued(agent, device, gone);
    const stays = await queued(agent, device, owner.project_id);
    const attempt = {
      device_id: device.device_id,
      command_id: running.command_id,
      attempt_id: newUuid(systemRandom),
    };
    await queue(gone).start(attempt);
    await env.DB.prepare(
      "UPDATE devices SET set_versions = json_set(set_versions, '$.' || ?, 1) WHERE id = ?",
    )
      .bind(gone, device.device_id)
      .run();
    const of = ({ command_id }: { command_id: string }) => ({ agent_id: agent.agent_id, command_id });
    const held = queue(gone).getRun({ ...of(waiting), wait_ms: 40_000 });

    const answer = await remove(owner, gone, "Old work");
    expect(answer.headers.get("location")).toBe("/account#projects");

    expect(await held).toBeUndefined();
    expect(await rowsOf(gone)).toEqual([0, 0, 0, 0]);
    expect(await tablesOf(gone)).toEqual([]);
    // A relay is told so on each call: it stops what it runs of the project.
    const unknown = { status: 404, error: "project_not_found" };
    expect(await sync(device, gone)).toEqual(unknown);
    expect(await sync(device, gone, await deviceToken(device))).toEqual(unknown);
    expect(await queue(gone).control(attempt)).toEqual({ ok: false, error: "project_not_found" });
    expect(await enqueue(agent, device, gone)).toMatchObject({ ok: false, error: "access_removed" });
    expect(await queue(owner.project_id).getRun({ ...of(stays), wait_ms: 0 })).toMatchObject({
      status: "queued",
    });
    expect((await sync(device, owner.project_id)).status).toBe(200);
    expect(await activity(owner)).toContain("Project “Old work” deleted");
    expect(await (await owner.browser.request("/account")).text()).not.toContain(gone);
    // A late delivery of access makes no object again.
    await deliverAccess(env, [gone]);
    await everyMinute(env);
    expect(await tablesOf(gone)).toEqual([]);
  });

  it("that is cut off half way shows the project nowhere, and is finished by the sweep", async () => {
    const owner = await newOwner();
    const gone = await newProject(owner, "Half way");
    const agent = await connectAgent(owner);
    const device = await pairDevice(owner);
    await queued(agent, device, gone);
    vi.spyOn(console, "error").mockImplementation(() => undefined);
    const broken = vi.spyOn(env.PROJECT_QUEUE, "getByName").mockImplementation(() => {
      throw new Error("overloaded");
    });
    expect((await remove(owner, gone, "Half way")).status).toBe(303);
    broken.mockRestore();
    expect((await pageOf(owner, gone)).status).toBe(404);
    const listed = await callWorker(`${ORIGIN}${RELAY_PATH}/projects`, {
      headers: { authorization: `Bearer ${device.token}` },
    });
    expect(await listed.text()).not.toContain(gone);
    expect(await sync(device, gone, await deviceToken(device))).toMatchObject({ error: "project_not_found" });
    expect((await rowsOf(gone))[0]).toBe(1);
    await everyMinute(env);
    expect(await rowsOf(gone)).toEqual([0, 0, 0, 0]);
    expect(await tablesOf(gone)).toEqual([]);
  });

  it("that meets a delivery of access on its way leaves no object behind", async () => {
    const owner = await newOwner();
    const gone = await newProject(owner, "Racer");
    const object = queue(gone);
    // The delivery has read D1 when the project goes, and reaches the object after.
    const late = {
      ...env,
      PROJECT_QUEUE: {
        getByName: () => ({
          applyAccess: async (access: Parameters<typeof object.applyAccess>[0]) => {
            await remove(owner, gone, "Racer");
            return object.applyAccess(access);
          },
          destroy: () => object.destroy(),
        }),
      } as never,
    };
    await deliverAccess(late, [gone]);
    expect(await tablesOf(gone)).toEqual([]);
  });

  it("needs the name typed and a fresh sign-in, and leads back to the page after one", async () => {
    const owner = await newOwner();
    const refused = await remove(owner, owner.project_id, "my laptop");
    expect([refused.status, alertOf(await refused.text())]).toEqual([
      400,
      expect.stringContaining("not the project"),
    ]);
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 10 * 60_000 + 1_000 });
    const stale = await remove(owner, owner.project_id, "My laptop");
    expect(stale.status).toBe(403);
    const back = `/sign-in?return_to=${encodeURIComponent(`/account/projects/${owner.project_id}`)}`;
    expect(await stale.text()).toContain(back);
    expect(await (await owner.browser.request(back)).text()).toContain(
      `name="return_to" value="/account/projects/${owner.project_id}"`,
    );
    expect((await pageOf(owner, owner.project_id)).status).toBe(200);
  });

  it("may take the last one: the consent page then says what to do", async () => {
    const owner = await newOwner();
    const agent = await connectAgent(owner);
    await remove(owner, owner.project_id, "My laptop");
    await expect(connectAgent(owner, { clientId: agent.client_id })).rejects.toThrow(
      "Tick at least one project",
    );
    await newProject(owner, "Anew");
    expect((await connectAgent(owner, { clientId: agent.client_id })).agent_id).toBe(agent.agent_id);
  });
});

it("another account's project answers on every page and form like one that never was", async () => {
  const owner = await newOwner();
  const stranger = await newOwner("Stranger");
  const csrf = csrfOf(await (await stranger.browser.request("/account")).text());
  const answers = new Map<string, string[]>();
  for (const id of [owner.project_id, "prj_000000000000", "nonsense"]) {
    const note = async (what: string, response: Response) =>
      answers.set(what, [
        ...(answers.get(what) ?? []),
        `${response.status} ${(await response.text()).replaceAll(csrf, "")}`,
      ]);
    await note("page", await pageOf({ ...stranger, project_id: id }, id));
    for (const path of ["settings", "delete", "rename"])
      await note(
        path,
        await post(stranger.browser, `/account/projects/${path}`, {
          csrf,
          project_id: id,
          name: "Taken",
          confirm: "My laptop",
          ...settings({ lease_seconds: "60" }),
        }),
      );
  }
  for (const [what, texts] of answers) {
    expect(new Set(texts).size, what).toBe(1);
    expect(texts[0]).toMatch(/^404 /);
  }
  expect(await stored(owner.project_id)).toEqual(DEFAULT_SETTINGS);
  expect((await pageOf(owner, owner.project_id)).status).toBe(200);
});
