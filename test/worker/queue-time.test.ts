import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { RunView } from "../../src/durable/contract.ts";
import type { ProjectQueue } from "../../src/durable/project-queue.ts";
import { newId } from "../../src/protocol/ids.ts";
import { DEFAULT_SETTINGS, LIMITS } from "../../src/protocol/limits.ts";
import { systemRandom } from "../../src/protocol/ports.ts";
import { accessOf, newProject, type Project, request, START, uuid } from "./queue-support.ts";

const SECOND = 1000;
const DAY = 24 * 60 * 60 * SECOND;
const LEASE = 90 * SECOND;

beforeEach(() => vi.useFakeTimers({ toFake: ["Date"], now: START }));
afterEach(() => vi.useRealTimers());

const at = (milliseconds: number) => vi.setSystemTime(START + milliseconds);
const evict = (p: Project) => evictDurableObject(p.stub);
const alarm = (p: Project) => runDurableObjectAlarm(p.stub);
const armedFor = (p: Project) =>
  runInDurableObject(p.stub, async (_: ProjectQueue, state) => {
    const time = await state.storage.getAlarm();
    return time === null ? null : time - START;
  });
const count = (p: Project, table: string) =>
  runInDurableObject(p.stub, (_: ProjectQueue, state) =>
    Number(state.storage.sql.exec<{ n: number }>(`select count(*) as n from ${table}`).one().n),
  );

/** A new command of the project, and the calls about it. */
async function newRun(p: Project) {
  const asked = request(p);
  await p.queue.enqueue(asked);
  const own = { agent_id: p.agent_id, command_id: asked.command_id };
  const mine = { device_id: p.device_id, command_id: asked.command_id, attempt_id: uuid() };
  return {
    ...mine,
    view: () => p.queue.getRun({ ...own, wait_ms: 0 }),
    wait: (wait_ms = 50 * SECOND) => p.queue.getRun({ ...own, wait_ms }),
    cancel: () => p.queue.cancel(own),
    start: () => p.queue.start(mine),
    control: (state: "running" | "awaiting_approval" = "running") =>
      p.queue.control({ ...mine, progress: { state } }),
    complete: () =>
      p.queue.complete({ ...mine, completion: { execution_id: uuid(), status: "completed", result: 1 } }),
  };
}

describe("the alarm", () => {
  it("is set for the nearest of what time will do, and moved only to be earlier", async () => {
    const p = await newProject();
    expect(await armedFor(p)).toBe(null);
    const run = await newRun(p);
    expect(await armedFor(p)).toBe(DAY);
    at(10 * SECOND);
    await newRun(p);
    expect(await armedFor(p), "a later expiry moves nothing").toBe(DAY);
    await run.start();
    expect(await armedFor(p)).toBe(10 * SECOND + LEASE);
    at(13 * SECOND);
    await run.control();
    expect(await armedFor(p), "a renewed lease moves nothing").toBe(10 * SECOND + LEASE);
    at(10 * SECOND + LEASE);
    expect(await alarm(p)).toBe(true);
    expect(await run.view()).toMatchObject({ status: "running" });
    expect(await armedFor(p), "it went off for a lease that was renewed").toBe(13 * SECOND + LEASE);
    await run.complete();
    at(13 * SECOND + LEASE);
    await alarm(p);
    expect(await armedFor(p), "the other command's expiry").toBe(10 * SECOND + DAY);
  });

  it("does everything that was due, however late it comes, and twice is as once", async () => {
    const p = await newProject();
    const [queued, running, ended] = [await newRun(p), await newRun(p), await newRun(p)];
    await running.start();
    await ended.cancel();
    at(20 * DAY);
    await alarm(p);
    const after = [await queued.view(), await running.view(), await ended.view()];
    expect(after.map((v) => v?.status)).toEqual(["expired", "lost", "cancelled"]);
    expect(after.map((v) => (v?.finished_at ?? 0) - START)).toEqual([DAY, LEASE, 0]);
    await alarm(p);
    expect([await queued.view(), await running.view(), await ended.view()]).toEqual(after);
    at(40 * DAY);
    await alarm(p);
    await alarm(p);
    expect([await queued.view(), await running.view(), await ended.view()]).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
    expect(await count(p, "commands")).toBe(0);
    expect(await count(p, "payloads")).toBe(0);
    expect(await armedFor(p)).toBe(null);
  });

  it("is not needed for the right answers: none is given from the past", async () => {
    const p = await newProject();
    const [queued, running] = [await newRun(p), await newRun(p)];
    await running.start();
    at(DAY);
    const pass = await p.queue.sync({ device_id: p.device_id, sessions_digest: "", token_issued_at: 0 });
    expect(pass).toMatchObject({ commands: [] });
    expect(await queued.start()).toEqual({ ok: true, value: { go: false, status: "expired" } });
    expect(await queued.cancel()).toMatchObject({ cancel: "already_finished", run: { status: "expired" } });
    expect(await running.view()).toMatchObject({ status: "lost" });
    at(40 * DAY);
    expect(await running.view()).toBe(undefined);
    expect(await running.control()).toEqual({ ok: false, error: "command_not_found" });
    expect(await running.complete()).toEqual({ ok: false, error: "command_not_found" });
    expect(await queued.cancel()).toBe(undefined);
  });

  it("comes for a record that is to be deleted before its run would have expired", async () => {
    const ways = {
      cancelled: async (p: Project) => (await newRun(p)).cancel(),
      withdrawn: async (p: Project) => {
        const run = await newRun(p);
        const completion = { execution_id: uuid(), status: "cancelled" as const };
        await p.queue.complete({ device_id: p.device_id, command_id: run.command_id, completion });
      },
      "agent removed": async (p: Project) => {
        await newRun(p);
        const settings = { ...DEFAULT_SETTINGS, retention_seconds: 3600 };
        await p.queue.applyAccess(accessOf(p, { version: 2, agents: [], settings }));
      },
    };
    for (const [way, end] of Object.entries(ways)) {
      const p = await newProject({ retention_seconds: 3600 });
      await end(p);
      expect(await armedFor(p), way).toBe(3600 * SECOND);
    }
  });

  it("survives the object's sleep, and work goes on where it was", async () => {
    const p = await newProject();
    const [queued, running] = [await newRun(p), await newRun(p)];
    await running.start();
    await evict(p);
    expect(await running.control()).toMatchObject({ value: { alive: true } });
    await evict(p);
    at(LEASE);
    expect(await alarm(p)).toBe(true);
    expect(await running.view()).toMatchObject({ status: "lost" });
    await evict(p);
    expect(await running.complete()).toMatchObject({ value: { record: "stored" } });
    expect(await running.view()).toMatchObject({ status: "completed", late: true });
    expect(await queued.view()).toMatchObject({ status: "queued", queue_position: 1 });
  });

  it("is set again by an object that wakes without one", async () => {
    const p = await newProject();
    await newRun(p);
    await runInDurableObject(p.stub, (_: ProjectQueue, state) => state.storage.deleteAlarm());
    await evict(p);
    expect(await armedFor(p)).toBe(DAY);
  });

  it("deletes a great many records in bounded steps, each following at once, also across a restart", async () => {
    const p = await newProject();
    const run = await newRun(p);
    await run.cancel();
    await runInDurableObject(p.stub, (_: ProjectQueue, state) => {
      state.storage.sql.exec(`
        with recursive n(i) as (select 1 union all select i + 1 from n where i < 450)
        insert into commands (command_id, agent_id, idempotency_key, graph_session_id, device_id, slug, state,
          queued_at, expires_at, finished_at, kept_until)
        select 'c' || i, 'a', 'k' || i, 'g', 'd', 's', 'completed', 0, 0, 0, ${START + DAY} from n`);
      state.storage.sql.exec(
        "insert into payloads select seq, '{}', '{}' from commands where agent_id = 'a'",
      );
      state.storage.sql.exec(
        "insert into kept_out select seq, 1, 0, null, 'e', 'failed' from commands where agent_id = 'a'",
      );
    });
    at(31 * DAY);
    const left = [];
    for (let i = 0; i < 3; i++) {
      await alarm(p);
      left.push(await count(p, "commands"));
      if (i < 2) expect(await armedFor(p)).toBeLessThanOrEqual(31 * DAY);
      await evict(p);
    }
    expect(left).toEqual([251, 51, 0]);
    expect(await count(p, "payloads")).toBe(0);
    expect(await count(p, "kept_out")).toBe(0);
    expect(await armedFor(p)).toBe(null);
  });

  it("may be late: a record past its time is gone for its owner all the same", async () => {
    const p = await newProject({ retention_seconds: 3600 });
    const [ended, queued] = [await newRun(p), await newRun(p)];
    await ended.cancel();
    const shown = async () =>
      (await p.queue.listRuns({ before: null, limit: 10, whole: false })).map((run) => run.command_id);
    at(3600 * SECOND - 1);
    expect(await shown()).toEqual([queued.command_id, ended.command_id]);
    at(3600 * SECOND);
    expect(await shown()).toEqual([queued.command_id]);
  });

  it("deletes claimed keys when their time is over", async () => {
    const p = await newProject();
    await p.queue.claimKey(request(p));
    expect(await armedFor(p)).toBe(400 * DAY);
    at(400 * DAY);
    await alarm(p);
    expect(await count(p, "key_claims")).toBe(0);
    expect(await armedFor(p)).toBe(null);
  });
});

describe("a call that waits", () => {
  it.each([
    ["ends", async (r: Awaited<ReturnType<typeof newRun>>) => r.complete(), "completed"],
    [
      "waits for its owner",
      async (r: Awaited<ReturnType<typeof newRun>>) => r.control("awaiting_approval"),
      "running",
    ],
    [
      "is told to stop, and stops",
      async (r: Awaited<ReturnType<typeof newRun>>) => {
        await r.cancel();
        await r.complete();
      },
      "cancelled",
    ],
  ])("is answered when the run %s", async (_what, then, status) => {
    const run = await newRun(await newProject());
    await run.start();
    const waiting = run.wait();
    await then(run);
    expect(await waiting).toMatchObject({ status });
  });

  it("is answered when the queued run is cancelled", async () => {
    const run = await newRun(await newProject());
    const waiting = run.wait();
    await run.cancel();
    expect(await waiting).toMatchObject({ status: "cancelled" });
  });

  it.each([
    ["expires", "expired", DAY],
    ["is lost", "lost", LEASE],
  ])("is answered when the run %s, by the alarm or by any other call", async (_what, status, time) => {
    for (const wakes of [alarm, (p: Project) => p.queue.presence({ agent_id: p.agent_id })]) {
      at(0);
      const p = await newProject();
      const run = await newRun(p);
      if (status === "lost") await run.start();
      const waiting = run.wait();
      // Calls arrive in order: once this one is answered, the other waits.
      await run.view();
      at(time);
      await wakes(p);
      expect(await waiting).toMatchObject({ status });
    }
  });

  it("is answered together with all others for that run, and no other run's", async () => {
    const p = await newProject();
    const [one, two] = [await newRun(p), await newRun(p)];
    const waiting = Array.from({ length: 10 }, () => one.wait());
    const other = two.wait();
    await one.cancel();
    expect((await Promise.all(waiting)).map((v) => v?.status)).toEqual(Array(10).fill("cancelled"));
    let early: RunView | undefined;
    void other.then((v) => {
      early = v;
    });
    await one.view();
    expect(early).toBe(undefined);
    await two.cancel();
    expect(await other).toMatchObject({ status: "cancelled" });
  });

  it("is answered at once for a run that ended or waits for its owner", async () => {
    const p = await newProject();
    const [ended, asking] = [await newRun(p), await newRun(p)];
    await ended.cancel();
    expect(await ended.wait()).toMatchObject({ status: "cancelled" });
    await asking.start();
    await asking.control("awaiting_approval");
    expect(await asking.wait()).toMatchObject({ progress_json: '{"state":"awaiting_approval"}' });
  });

  it("is answered with the run as it stands when its time is up", async () => {
    const run = await newRun(await newProject());
    expect(await run.wait(1)).toMatchObject({ status: "queued" });
    for (const wait_ms of [0, -1, Number.NaN])
      expect(await run.wait(wait_ms)).toMatchObject({ status: "queued" });
  });

  it("is answered at once if the agent has as many waiting as it may; another agent's waits", async () => {
    const p = await newProject();
    const other = newId("agt", systemRandom);
    const agents = [p.agent_id, other].map((agent_id) => ({ agent_id, name: "Claude" }));
    await p.queue.applyAccess(accessOf(p, { version: 2, agents }));
    const run = await newRun(p);
    const waiting = Array.from({ length: LIMITS.waitersPerAgent }, () => run.wait());
    await run.view();
    expect(await run.wait()).toMatchObject({ status: "queued" });
    const asked = request(p, { agent_id: other });
    await p.queue.enqueue(asked);
    const others = p.queue.getRun({ agent_id: other, command_id: asked.command_id, wait_ms: 50_000 });
    await run.cancel();
    await Promise.all(waiting);
    await p.queue.cancel({ agent_id: other, command_id: asked.command_id });
    expect(await others).toMatchObject({ status: "cancelled" });
  });
});

describe("whether a device is there", () => {
  const presence = async (p: Project) => (await p.queue.presence({ agent_id: p.agent_id }))?.[p.device_id];
  const pass = (p: Project, token_issued_at = START) =>
    p.queue.sync({ device_id: p.device_id, sessions_digest: "", token_issued_at });

  it("is told by its last sign: a pass, a start, a control or a result", async () => {
    const p = await newProject();
    const run = await newRun(p);
    expect(await presence(p)).toEqual({ online: false, last_seen_at: null });
    const signs = [() => pass(p), run.start, run.control, run.complete];
    for (const [i, sign] of signs.entries()) {
      const now = i * 70 * SECOND;
      at(now);
      await sign();
      expect(await presence(p)).toEqual({ online: true, last_seen_at: START + now });
      at(now + 59_999);
      expect(await presence(p)).toMatchObject({ online: true });
      at(now + 60_000);
      expect(await presence(p)).toEqual({ online: false, last_seen_at: START + now });
      expect(await run.view()).toMatchObject({ desktop: { online: false, last_seen_at: START + now } });
    }
  });

  it("is not told by what a stranger does with its commands", async () => {
    const p = await newProject();
    const run = await newRun(p);
    const device_id = newId("dev", systemRandom);
    await p.queue.applyAccess(
      accessOf(p, { version: 2, devices: [{ device_id: p.device_id }, { device_id }] }),
    );
    await p.queue.start({ device_id, command_id: run.command_id, attempt_id: uuid() });
    expect(await presence(p)).toEqual({ online: false, last_seen_at: null });
  });

  it("is not told by what it did before it was on the list", async () => {
    const p = await newProject();
    const run = await newRun(p);
    const device_id = newId("dev", systemRandom);
    await p.queue.start({ device_id, command_id: run.command_id, attempt_id: uuid() });
    await p.queue.applyAccess(accessOf(p, { version: 2, devices: [{ device_id }] }));
    expect(await p.queue.presence({ agent_id: p.agent_id })).toEqual({
      [device_id]: { online: false, last_seen_at: null },
    });
  });

  it("is believed of a device with a fresh token by an object that just woke, until it had time to see", async () => {
    const p = await newProject();
    await pass(p);
    at(10 * 60 * SECOND);
    await pass(p);
    await evict(p);
    expect(await presence(p), "the lasting note is of the first pass").toEqual({
      online: true,
      last_seen_at: START,
    });
    at(11 * 60 * SECOND);
    expect(await presence(p)).toEqual({ online: false, last_seen_at: START });
    await pass(p);
    expect(await presence(p)).toEqual({ online: true, last_seen_at: START + 11 * 60 * SECOND });
    at(60 * 60 * SECOND);
    await evict(p);
    expect(await presence(p)).toMatchObject({ online: false });
  });

  it("leaves a lasting note when the device shows a newer token", async () => {
    const p = await newProject();
    await pass(p, START);
    at(15 * 60 * SECOND);
    await pass(p, START + 15 * 60 * SECOND);
    at(16 * 60 * SECOND);
    await pass(p, START + 15 * 60 * SECOND);
    await pass(p, START);
    await evict(p);
    expect(await presence(p)).toEqual({ online: true, last_seen_at: START + 15 * 60 * SECOND });
  });
});

describe("texts", () => {
  it.each([
    ["NUL", "before\u0000after"],
    ["lone surrogates", "\ud83d and \udc00"],
    ["an emoji", "\ud83d\ude00"],
    ["Korean", "\ud55c\uad6d\uc5b4"],
    ["line separators", "\u2028\u2029\r\n"],
    ["quotes and SQL", `"'; drop table commands; --`],
  ])("with %s arrive as they were sent, in arguments, results and errors", async (_what, text) => {
    const p = await newProject();
    const arguments_json = JSON.stringify({ [text]: text });
    const asked = request(p, { arguments_json });
    await p.queue.enqueue(asked);
    const passed = await p.queue.sync({ device_id: p.device_id, sessions_digest: "", token_issued_at: 0 });
    expect(passed.ok && passed.commands[0]?.arguments_json).toBe(arguments_json);
    expect(await p.queue.enqueue(asked)).toMatchObject({ created: false });
    const mine = { device_id: p.device_id, command_id: asked.command_id, attempt_id: uuid() };
    await p.queue.start(mine);
    const completion = {
      execution_id: uuid(),
      status: "failed" as const,
      error: text,
      result: [text, { [text]: 1 }],
    };
    await p.queue.complete({ ...mine, completion });
    const view = await p.queue.getRun({ agent_id: p.agent_id, command_id: asked.command_id, wait_ms: 0 });
    expect(JSON.parse(view?.outcome_json ?? "")).toEqual(completion);
    expect(await p.queue.complete({ ...mine, completion })).toMatchObject({
      value: { record: "already_stored" },
    });
  });

  it("keep names such as __proto__, an order of keys, depth and size", async () => {
    const p = await newProject();
    const run = await newRun(p);
    await run.start();
    const nested = "[".repeat(200) + "]".repeat(200);
    const result = `{"z":1,"__proto__":{"x":1},"constructor":2,"toString":3,"a":${nested},"b":"${"\ud55c".repeat(90_000)}"}`;
    const execution_id = uuid();
    await p.queue.complete({
      ...run,
      completion: { execution_id, status: "completed", result: JSON.parse(result) },
    });
    expect((await run.view())?.outcome_json).toBe(
      `{"execution_id":"${execution_id}","status":"completed","result":${result}}`,
    );
  });
});
