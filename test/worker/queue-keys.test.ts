import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { EnqueueAnswer, EnqueueRequest } from "../../src/durable/contract.ts";
import { newId } from "../../src/protocol/ids.ts";
import { DEFAULT_SETTINGS, LIMITS } from "../../src/protocol/limits.ts";
import { systemRandom } from "../../src/protocol/ports.ts";
import { accessOf, newProject, type Project, request, START, uuid } from "./queue-support.ts";

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;
const RETENTION = DEFAULT_SETTINGS.retention_seconds * 1000;

beforeEach(() => vi.useFakeTimers({ toFake: ["Date"], now: START }));
afterEach(() => vi.useRealTimers());

function runOf(answer: EnqueueAnswer) {
  if (!answer.ok) throw new Error(`not queued: ${answer.error}`);
  return answer.run;
}
/** The same intent again, as the Worker sends it: a new command id each time. */
const again = (p: Project, asked: EnqueueRequest, change: Partial<EnqueueRequest> = {}) =>
  p.queue.enqueue({ ...asked, command_id: request(p).command_id, ...change });
const queued = async (p: Project) => {
  const pass = await p.queue.sync({ device_id: p.device_id, sessions_digest: "", token_issued_at: 0 });
  if (!pass.ok) throw new Error(pass.error);
  return pass.commands.map((c) => c.command_id);
};
const startOf = (p: Project, command_id: string, attempt_id = uuid()) =>
  p.queue.start({ device_id: p.device_id, command_id, attempt_id });
const completeOf = (
  p: Project,
  command_id: string,
  attempt_id: string,
  status: "completed" | "failed" | "cancelled",
) =>
  p.queue.complete({
    device_id: p.device_id,
    command_id,
    attempt_id,
    completion: { execution_id: uuid(), status },
  });

describe("the same key, session and arguments", () => {
  it("get the same ticket", async () => {
    const p = await newProject();
    const asked = request(p, { arguments_json: '{"a":1}' });
    const first = await p.queue.enqueue(asked);
    const second = await again(p, asked);
    expect(second).toEqual({ ...first, created: false });
    expect(await queued(p)).toEqual([asked.command_id]);
  });

  it("get one command from fifty calls at once, and each its ticket", async () => {
    const p = await newProject();
    const asked = request(p);
    const answers = await Promise.all(Array.from({ length: 50 }, () => again(p, asked)));
    expect(new Set(answers.map((a) => runOf(a).command_id)).size).toBe(1);
    expect(answers.filter((a) => a.ok && a.created)).toHaveLength(1);
    expect(await queued(p)).toHaveLength(1);
  });

  it("get the ticket even where the queue is full", async () => {
    const p = await newProject({ max_queued_per_agent: 1 });
    const asked = request(p);
    await p.queue.enqueue(asked);
    expect(await p.queue.enqueue(request(p))).toMatchObject({ error: "queue_full" });
    expect(await again(p, asked)).toMatchObject({ ok: true, created: false });
  });

  it.each([
    "queued",
    "running",
    "completed",
    "failed",
    "cancelled before the start",
    "stopped",
    "expired",
    "lost",
  ])(
    "get the same ticket when the run is %s, and other arguments an error that names it",
    async (becomes) => {
      const p = await newProject();
      const asked = request(p, { arguments_json: '{"a":1}' });
      await p.queue.enqueue(asked);
      const own = { agent_id: p.agent_id, command_id: asked.command_id };
      const attempt = uuid();
      if (becomes === "cancelled before the start") await p.queue.cancel(own);
      else if (becomes === "expired") vi.setSystemTime(START + DAY);
      else if (becomes !== "queued") {
        await startOf(p, asked.command_id, attempt);
        if (becomes === "completed" || becomes === "failed")
          await completeOf(p, asked.command_id, attempt, becomes);
        if (becomes === "stopped") {
          await p.queue.cancel(own);
          await completeOf(p, asked.command_id, attempt, "cancelled");
        }
        if (becomes === "lost") vi.setSystemTime(START + 90_000);
      }
      const run = await p.queue.getRun({ ...own, wait_ms: 0 });
      expect(await again(p, asked)).toEqual({ ok: true, created: false, run });
      expect(await again(p, asked, { arguments_json: '{"a":2}' })).toEqual({
        ok: false,
        error: "key_conflict",
        run: { command_id: asked.command_id, status: run?.status },
      });
    },
  );
});

describe("a call that only looks for a repeat", () => {
  it("gets the ticket, the conflict, or that the key is new, and queues nothing", async () => {
    const p = await newProject();
    const asked = request(p, { repeat_only: true });
    expect(await p.queue.enqueue(asked)).toEqual({ ok: false, error: "new_key" });
    expect(await queued(p)).toEqual([]);
    const first = await again(p, asked, { repeat_only: false });
    expect(await again(p, asked)).toEqual({ ...first, created: false });
    expect(await again(p, asked, { arguments_json: "[]" })).toMatchObject({ error: "key_conflict" });
    expect(await queued(p)).toEqual([runOf(first).command_id]);
  });

  it("finds the run of a device that was removed", async () => {
    const p = await newProject();
    const asked = request(p);
    await p.queue.enqueue(asked);
    await p.queue.applyAccess(accessOf(p, { version: 2, devices: [] }));
    expect(runOf(await again(p, asked))).toMatchObject({
      command_id: asked.command_id,
      status: "cancelled",
    });
    expect(await p.queue.enqueue(request(p))).toEqual({ ok: false, error: "access_removed" });
  });
});

describe("the same key for anything else", () => {
  it("is an error that names the earlier run and its state, and queues nothing", async () => {
    const p = await newProject();
    const asked = request(p, { arguments_json: '{"a":1}' });
    await p.queue.enqueue(asked);
    const conflict = {
      ok: false,
      error: "key_conflict",
      run: { command_id: asked.command_id, status: "queued" },
    };
    expect(await again(p, asked, { arguments_json: "{}" })).toEqual(conflict);
    expect(await again(p, asked, { graph_session_id: newId("gs", systemRandom) })).toEqual(conflict);
    await startOf(p, asked.command_id);
    expect(await again(p, asked, { arguments_json: "{}" })).toEqual({
      ...conflict,
      run: { command_id: asked.command_id, status: "running" },
    });
    expect(await queued(p)).toEqual([]);
  });

  it("is one command and one error when two such calls come at once", async () => {
    const p = await newProject();
    const asked = request(p);
    const answers = await Promise.all([
      again(p, asked, { arguments_json: '{"a":1}' }),
      again(p, asked, { arguments_json: '{"a":2}' }),
    ]);
    expect(answers.map((a) => a.ok).sort()).toEqual([false, true]);
    expect(await queued(p)).toHaveLength(1);
  });

  it("is fine for another agent, which gets a run of its own", async () => {
    const p = await newProject();
    const other = newId("agt", systemRandom);
    const agents = [p.agent_id, other].map((agent_id) => ({ agent_id, name: "Claude" }));
    await p.queue.applyAccess(accessOf(p, { version: 2, agents }));
    const asked = request(p);
    const first = runOf(await p.queue.enqueue(asked));
    const second = runOf(await again(p, asked, { agent_id: other }));
    expect(second.command_id).not.toBe(first.command_id);
    expect(await queued(p)).toEqual([first.command_id, second.command_id]);
  });

  it("is fine in another project", async () => {
    const [p, q] = [await newProject(), await newProject()];
    const asked = request(p);
    runOf(await p.queue.enqueue(asked));
    expect(await again(q, { ...request(q), idempotency_key: asked.idempotency_key })).toMatchObject({
      created: true,
    });
  });
});

describe("a key", () => {
  it("that was not queued for want of room stores nothing: it works once there is room", async () => {
    const p = await newProject({ max_queued_per_agent: 1 });
    const first = request(p);
    await p.queue.enqueue(first);
    const asked = request(p, { arguments_json: '{"a":1}' });
    expect(await p.queue.enqueue(asked)).toMatchObject({ error: "queue_full" });
    await p.queue.cancel({ agent_id: p.agent_id, command_id: first.command_id });
    expect(await again(p, asked, { arguments_json: '{"a":2}' })).toMatchObject({ ok: true, created: true });
  });

  it("lives as long as the run's record, whether or not the alarm came", async () => {
    const p = await newProject();
    const asked = request(p);
    await p.queue.enqueue(asked);
    await p.queue.cancel({ agent_id: p.agent_id, command_id: asked.command_id });
    vi.setSystemTime(START + RETENTION - 1);
    expect(await again(p, asked)).toMatchObject({ created: false });
    vi.setSystemTime(START + RETENTION);
    const fresh = await again(p, asked, { arguments_json: '{"a":2}' });
    expect(fresh).toMatchObject({ ok: true, created: true });
    expect(await p.queue.getRun({ agent_id: p.agent_id, command_id: asked.command_id, wait_ms: 0 })).toBe(
      undefined,
    );
  });

  it.each([
    ["lone surrogates that differ", "\ud800-abcdefg", "\ud801-abcdefg"],
    ["a NUL at different places", "abc\u0000defg", "abcd\u0000efg"],
    ["text after a NUL", "abcdefgh\u0000", "abcdefgh"],
    ["letter case", "ABCDEFGH", "abcdefgh"],
    ["forms of the same letter", "caf\u00e9----", "cafe\u0301----"],
    ["names of an object's own", "__proto__", "constructor"],
  ])("is told from another by %s", async (_what, one, two) => {
    const p = await newProject();
    const first = runOf(await p.queue.enqueue(request(p, { idempotency_key: one })));
    const second = runOf(await p.queue.enqueue(request(p, { idempotency_key: two })));
    expect(second.command_id).not.toBe(first.command_id);
    expect(runOf(await p.queue.enqueue(request(p, { idempotency_key: one }))).command_id).toBe(
      first.command_id,
    );
  });
});

describe("a key claimed for a run in another project", () => {
  const claimOf = (p: Project, elsewhere: Project) => ({
    agent_id: p.agent_id,
    idempotency_key: uuid(),
    graph_session_id: elsewhere.session_id,
    command_id: request(elsewhere).command_id,
  });

  const taken = (command_id: string, age_ms: number | null, same_session = true) => ({
    ok: false,
    error: "key_taken",
    command_id,
    same_session,
    age_ms,
  });

  it("names that run from then on, and says since when and whether for the same session", async () => {
    const [home, target] = [await newProject(), await newProject()];
    const claim = claimOf(home, target);
    for (let i = 0; i < 2; i++) expect(await home.queue.claimKey(claim)).toEqual({ ok: true });
    vi.setSystemTime(START + 5_000);
    const later = { ...claim, command_id: request(target).command_id };
    expect(await home.queue.claimKey(later)).toEqual(taken(claim.command_id, 5_000));
    expect(await home.queue.claimKey({ ...later, graph_session_id: newId("gs", systemRandom) })).toEqual(
      taken(claim.command_id, 5_000, false),
    );
  });

  it("is claimed by one of fifty calls at once", async () => {
    const [home, target] = [await newProject(), await newProject()];
    const claim = claimOf(home, target);
    const ids = Array.from({ length: 50 }, () => request(target).command_id);
    const answers = await Promise.all(ids.map((command_id) => home.queue.claimKey({ ...claim, command_id })));
    const winners = ids.filter((_, i) => answers[i]?.ok);
    expect(winners).toHaveLength(1);
    for (const answer of answers) if (!answer.ok) expect(answer).toEqual(taken(winners[0] ?? "", 0));
  });

  it("names another once its run is known to be void, to one of two that know it", async () => {
    const [home, target] = [await newProject(), await newProject()];
    const claim = claimOf(home, target);
    await home.queue.claimKey(claim);
    const [one, two] = [request(target).command_id, request(target).command_id];
    const replace = (command_id: string) =>
      home.queue.claimKey({ ...claim, command_id, replaces: claim.command_id });
    expect(await replace(one)).toEqual({ ok: true });
    expect(await replace(two)).toEqual(taken(one, 0));
    expect(await replace(one)).toEqual({ ok: true });
  });

  it("is not queued here, but for the command it names", async () => {
    const p = await newProject();
    const claim = claimOf(p, p);
    await p.queue.claimKey(claim);
    const asked = request(p, { idempotency_key: claim.idempotency_key });
    expect(await p.queue.enqueue(asked)).toEqual({
      ok: false,
      error: "key_claimed",
      command_id: claim.command_id,
    });
    expect(await queued(p)).toEqual([]);
    expect(await p.queue.enqueue({ ...asked, command_id: claim.command_id })).toMatchObject({
      created: true,
    });
  });

  it("is the run's that is queued here already", async () => {
    const [home, target] = [await newProject(), await newProject()];
    const asked = request(home);
    await home.queue.enqueue(asked);
    const claim = {
      agent_id: home.agent_id,
      idempotency_key: asked.idempotency_key,
      graph_session_id: asked.graph_session_id,
      command_id: request(target).command_id,
      replaces: asked.command_id,
    };
    expect(await home.queue.claimKey(claim)).toEqual(taken(asked.command_id, null));
    expect(await home.queue.claimKey({ ...claim, graph_session_id: newId("gs", systemRandom) })).toEqual(
      taken(asked.command_id, null, false),
    );
  });

  it("is no longer the run's whose record is over, though not deleted yet", async () => {
    const [home, target] = [await newProject(), await newProject()];
    const asked = request(home);
    await home.queue.enqueue(asked);
    await home.queue.cancel(asked);
    vi.setSystemTime(START + RETENTION);
    const claim = { ...claimOf(home, target), idempotency_key: asked.idempotency_key };
    expect(await home.queue.claimKey(claim)).toEqual({ ok: true });
    expect(await home.queue.claimKey({ ...claim, command_id: request(target).command_id })).toEqual(
      taken(claim.command_id, 0),
    );
  });

  it("is found without being claimed", async () => {
    const [home, target] = [await newProject(), await newProject()];
    const claim = claimOf(home, target);
    expect(await home.queue.findKey(claim)).toBeUndefined();
    await home.queue.claimKey(claim);
    expect(await home.queue.findKey(claim)).toEqual(taken(claim.command_id, 0));
    await home.queue.releaseKey(claim);
    const asked = request(home);
    await home.queue.enqueue(asked);
    expect(await home.queue.findKey(asked)).toEqual(taken(asked.command_id, null));
    vi.setSystemTime(START + 10 * MINUTE);
    expect(await home.queue.findKey(claim)).toBeUndefined();
  });

  it("is free again ten minutes after its run was refused, unless another call was told of it", async () => {
    const [home, target] = [await newProject(), await newProject()];
    const [claim, adopted] = [claimOf(home, target), claimOf(home, target)];
    const other = (key: typeof claim) => ({ ...key, command_id: request(target).command_id });
    for (const key of [claim, adopted]) await home.queue.claimKey(key);
    expect(await home.queue.claimKey(other(adopted))).toEqual(taken(adopted.command_id, 0));
    await home.queue.releaseKey(other(claim));
    expect(await home.queue.claimKey(claim)).toEqual({ ok: true });
    for (const key of [claim, adopted]) await home.queue.releaseKey(key);
    vi.setSystemTime(START + 10 * MINUTE - 1);
    expect(await home.queue.findKey(claim)).toEqual(taken(claim.command_id, 10 * MINUTE - 1));
    vi.setSystemTime(START + 10 * MINUTE);
    expect(await home.queue.claimKey(other(claim))).toEqual({ ok: true });
    expect(await home.queue.claimKey(other(adopted))).toEqual(taken(adopted.command_id, 10 * MINUTE));
  });

  it("stays once a call that was told of it after the refusal may queue it", async () => {
    const [home, target] = [await newProject(), await newProject()];
    const claim = claimOf(home, target);
    await home.queue.claimKey(claim);
    await home.queue.releaseKey(claim);
    await home.queue.claimKey({ ...claim, command_id: request(target).command_id });
    vi.setSystemTime(START + DAY);
    expect(await home.queue.findKey(claim)).toEqual(taken(claim.command_id, DAY));
  });

  it("stays if it took the place of another, which must never be queued", async () => {
    const [home, target] = [await newProject(), await newProject()];
    const claim = claimOf(home, target);
    await home.queue.claimKey(claim);
    const next = { ...claim, command_id: request(target).command_id, replaces: claim.command_id };
    await home.queue.claimKey(next);
    await home.queue.releaseKey(next);
    vi.setSystemTime(START + DAY);
    expect(await home.queue.findKey(claim)).toEqual(taken(next.command_id, DAY));
  });

  it("is another agent's own to claim, whether or not that has access here", async () => {
    const [home, target] = [await newProject(), await newProject()];
    const claim = claimOf(home, target);
    await home.queue.claimKey(claim);
    const other = { ...claim, agent_id: newId("agt", systemRandom), command_id: request(target).command_id };
    expect(await home.queue.claimKey(other)).toEqual({ ok: true });
    const agents = [{ agent_id: other.agent_id, name: "Claude" }];
    await home.queue.applyAccess(accessOf(home, { version: 2, agents }));
    for (const { command_id, ...key } of [claim, other])
      expect(await home.queue.claimKey({ ...key, command_id: request(target).command_id })).toEqual(
        taken(command_id, 0),
      );
  });

  it("is free after 400 days, whether or not the alarm came", async () => {
    const [home, target] = [await newProject(), await newProject()];
    const claim = claimOf(home, target);
    await home.queue.claimKey(claim);
    const next = {
      ...claim,
      graph_session_id: newId("gs", systemRandom),
      command_id: request(target).command_id,
    };
    vi.setSystemTime(START + 400 * DAY - 1);
    expect(await home.queue.claimKey(next)).toEqual(taken(claim.command_id, 400 * DAY - 1, false));
    vi.setSystemTime(START + 400 * DAY);
    expect(await home.queue.claimKey(next)).toEqual({ ok: true });
  });
});

describe("the caps", () => {
  it("hold an agent to its own, and say which and how many", async () => {
    const p = await newProject({ max_queued_per_agent: 3 });
    const asked = [request(p), request(p), request(p)];
    for (const one of asked) await p.queue.enqueue(one);
    expect(await p.queue.enqueue(request(p))).toEqual({
      ok: false,
      error: "queue_full",
      scope: "agent",
      limit: 3,
    });
    await startOf(p, asked[0]?.command_id ?? "");
    expect(await p.queue.enqueue(request(p)), "a started run leaves room").toMatchObject({ created: true });
  });

  it("hold all agents together to the project's", async () => {
    const p = await newProject({ max_queued_per_project: 3, max_queued_per_agent: 2 });
    const other = newId("agt", systemRandom);
    const agents = [p.agent_id, other].map((agent_id) => ({ agent_id, name: "Claude" }));
    const settings = { ...DEFAULT_SETTINGS, max_queued_per_project: 3, max_queued_per_agent: 2 };
    await p.queue.applyAccess(accessOf(p, { version: 2, agents, settings }));
    await p.queue.enqueue(request(p));
    await p.queue.enqueue(request(p));
    await p.queue.enqueue(request(p, { agent_id: other }));
    expect(await p.queue.enqueue(request(p, { agent_id: other }))).toEqual({
      ok: false,
      error: "queue_full",
      scope: "project",
      limit: 3,
    });
    expect(await p.queue.enqueue(request(p))).toMatchObject({ scope: "agent", limit: 2 });
  });

  it("are not passed by many calls at once", async () => {
    const p = await newProject({ max_queued_per_agent: 5 });
    const answers = await Promise.all(Array.from({ length: 30 }, () => p.queue.enqueue(request(p))));
    expect(answers.filter((a) => a.ok)).toHaveLength(5);
  });

  it("count no command that has expired", async () => {
    const p = await newProject({ max_queued_per_agent: 1 });
    await p.queue.enqueue(request(p));
    vi.setSystemTime(START + DAY);
    expect(await p.queue.enqueue(request(p))).toMatchObject({ created: true });
  });

  it("are the documented ones by default", async () => {
    const p = await newProject();
    for (let i = 0; i < 20; i++) await p.queue.enqueue(request(p));
    expect(await p.queue.enqueue(request(p))).toMatchObject({ scope: "agent", limit: 20 });
    expect(DEFAULT_SETTINGS.max_queued_per_project).toBe(100);
  });
});

it("keeps each run's place in its own device's queue", async () => {
  const p = await newProject();
  const device_id = newId("dev", systemRandom);
  const devices = [p.device_id, device_id].map((id) => ({ device_id: id }));
  await p.queue.applyAccess(accessOf(p, { version: 2, devices }));
  const [a, b, c] = [request(p), request(p, { device_id }), request(p)];
  expect(runOf(await p.queue.enqueue(a)).queue_position).toBe(1);
  expect(runOf(await p.queue.enqueue(b)).queue_position).toBe(1);
  expect(runOf(await p.queue.enqueue(c)).queue_position).toBe(2);
  expect(await p.queue.getRun({ ...a, wait_ms: 0 })).toMatchObject({ queue_position: 1 });
  await startOf(p, a.command_id);
  expect(
    (await p.queue.getRun({ agent_id: p.agent_id, command_id: c.command_id, wait_ms: 0 }))?.queue_position,
  ).toBe(1);
});

describe("a pass", () => {
  it("brings the oldest twenty, and the rest as they are started", async () => {
    const p = await newProject({ max_queued_per_agent: 50 });
    const asked = Array.from({ length: 25 }, () => request(p));
    for (const one of asked) await p.queue.enqueue(one);
    const ids = asked.map((one) => one.command_id);
    expect(await queued(p)).toEqual(ids.slice(0, LIMITS.commandsPerSync));
    for (const id of ids.slice(0, 10)) await startOf(p, id);
    expect(await queued(p)).toEqual(ids.slice(10));
  });

  it("brings at most a million characters of arguments, oldest first", async () => {
    const p = await newProject({ max_queued_per_agent: 50 });
    const wide = JSON.stringify({ a: "\uac00".repeat(LIMITS.argumentsCharacters - 8) });
    expect(wide.length).toBe(LIMITS.argumentsCharacters);
    const asked = Array.from({ length: 12 }, () => request(p, { arguments_json: wide }));
    for (const one of asked) await p.queue.enqueue(one);
    expect(await queued(p)).toEqual(asked.slice(0, 10).map((one) => one.command_id));
    await p.queue.cancel({ agent_id: p.agent_id, command_id: asked[0]?.command_id ?? "" });
    expect(await queued(p)).toEqual(asked.slice(1, 11).map((one) => one.command_id));
  });
});
