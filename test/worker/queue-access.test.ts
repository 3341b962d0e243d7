import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { ProjectAccess, ProjectQueueApi } from "../../src/durable/contract.ts";
import { CANCEL_REASONS } from "../../src/protocol/errors.ts";
import { newId, newProjectId } from "../../src/protocol/ids.ts";
import { DEFAULT_SETTINGS } from "../../src/protocol/limits.ts";
import { systemRandom } from "../../src/protocol/ports.ts";
import { EMPTY_DIGEST, sessionsDigest } from "../../src/protocol/relay-api.ts";
import { accessOf, newProject, type Project, request, START, uuid } from "./queue-support.ts";

beforeEach(() => vi.useFakeTimers({ toFake: ["Date"], now: START }));
afterEach(() => vi.useRealTimers());

const completion = () => ({ execution_id: uuid(), status: "completed" as const, result: "secret" });

/** Every call that takes an id, by what asks: an agent about a command, a device about a command. */
const AGENT_CALLS: Record<
  string,
  (q: ProjectQueueApi, agent_id: string, command_id: string) => Promise<unknown>
> = {
  getRun: (q, agent_id, command_id) => q.getRun({ agent_id, command_id, wait_ms: 0 }),
  "getRun, waiting": (q, agent_id, command_id) => q.getRun({ agent_id, command_id, wait_ms: 50_000 }),
  cancel: (q, agent_id, command_id) => q.cancel({ agent_id, command_id }),
};
const DEVICE_CALLS: Record<
  string,
  (q: ProjectQueueApi, device_id: string, command_id: string) => Promise<unknown>
> = {
  start: (q, device_id, command_id) => q.start({ device_id, command_id, attempt_id: uuid() }),
  control: (q, device_id, command_id) => q.control({ device_id, command_id, attempt_id: uuid() }),
  complete: (q, device_id, command_id) =>
    q.complete({ device_id, command_id, attempt_id: uuid(), completion: completion() }),
};
const MALFORMED = [
  "",
  "x",
  "'; drop table commands; --",
  "__proto__",
  "\ud800",
  "a\u0000b",
  "%",
  "x".repeat(100_000),
];

/** A project with two agents and two devices, and a command of the first pair in each state. */
async function shared() {
  const p = await newProject();
  const other = { agent_id: newId("agt", systemRandom), device_id: newId("dev", systemRandom) };
  const lists = {
    agents: [p.agent_id, other.agent_id].map((agent_id) => ({ agent_id, name: "Claude" })),
    devices: [{ device_id: p.device_id }, { device_id: other.device_id }],
  };
  await p.queue.applyAccess(accessOf(p, { version: 2, ...lists }));
  const [queued, running, ended] = [request(p), request(p), request(p)];
  for (const one of [queued, running, ended]) await p.queue.enqueue(one);
  const mine = (command_id: string) => ({ device_id: p.device_id, command_id, attempt_id: uuid() });
  await p.queue.start(mine(running.command_id));
  const done = mine(ended.command_id);
  await p.queue.start(done);
  await p.queue.complete({ ...done, completion: completion() });
  return { ...p, other, lists, ids: [queued, running, ended].map((one) => one.command_id) };
}

const views = (p: Project, ids: string[]) =>
  Promise.all(ids.map((command_id) => p.queue.getRun({ agent_id: p.agent_id, command_id, wait_ms: 0 })));

describe.each(Object.entries(AGENT_CALLS))("%s", (_name, call) => {
  it("answers the same for a run of another agent, of another project, an unknown and a malformed one", async () => {
    const p = await shared();
    const before = await views(p, p.ids);
    const foreign = await shared();
    const strange = [...p.ids, ...foreign.ids, request(p).command_id, uuid(), ...MALFORMED];
    for (const id of strange) expect(await call(p.queue, p.other.agent_id, id)).toBe(undefined);
    for (const agent of [newId("agt", systemRandom), p.device_id, ...MALFORMED])
      expect(await call(p.queue, agent, p.ids[0] ?? "")).toBe(undefined);
    expect(await views(p, p.ids)).toEqual(before);
  });

  it("answers a removed agent like a stranger, at once", async () => {
    const p = await shared();
    await p.queue.applyAccess(accessOf(p, { version: 3, ...p.lists, agents: p.lists.agents.slice(1) }));
    for (const id of [...p.ids, uuid()]) expect(await call(p.queue, p.agent_id, id)).toBe(undefined);
  });
});

describe.each(Object.entries(DEVICE_CALLS))("%s", (_name, call) => {
  it("answers the same for a command of another device, of another project, an unknown and a malformed one", async () => {
    const p = await shared();
    const before = await views(p, p.ids);
    const foreign = await shared();
    const strange = [...p.ids, ...foreign.ids, request(p).command_id, uuid(), ...MALFORMED];
    for (const id of strange)
      expect(await call(p.queue, p.other.device_id, id)).toEqual({ ok: false, error: "command_not_found" });
    expect(await views(p, p.ids)).toEqual(before);
  });

  it("answers the same to a removed device, an unknown and a malformed one, whatever the command", async () => {
    const p = await shared();
    await p.queue.applyAccess(accessOf(p, { version: 3, ...p.lists, devices: p.lists.devices.slice(1) }));
    const before = await views(p, p.ids);
    for (const device of [p.device_id, newId("dev", systemRandom), p.agent_id, ...MALFORMED])
      for (const id of [...p.ids, uuid(), ...MALFORMED])
        expect(await call(p.queue, device, id)).toEqual({ ok: false, error: "device_removed" });
    expect(await views(p, p.ids)).toEqual(before);
  });
});

async function begun(queue: ProjectQueueApi, device_id: string): Promise<number> {
  const answer = await queue.beginSet({ device_id });
  return answer.ok ? answer.set_version : Number.NaN;
}

async function store(queue: ProjectQueueApi, device_id: string, sessions_digest: string) {
  return queue.storeDigest({ device_id, sessions_digest, set_version: await begun(queue, device_id) });
}

describe("a device's pass", () => {
  it("brings no other device's commands", async () => {
    const p = await shared();
    const pass = { sessions_digest: "", token_issued_at: 1 };
    expect(await p.queue.sync({ device_id: p.other.device_id, ...pass })).toMatchObject({ commands: [] });
    expect(await p.queue.sync({ device_id: p.device_id, ...pass })).toMatchObject({
      commands: [{ command_id: p.ids[0] }],
    });
  });

  it("is refused to a device that is not on the list", async () => {
    const p = await newProject();
    const removed = { ok: false, error: "device_removed" };
    for (const device_id of [newId("dev", systemRandom), ...MALFORMED]) {
      expect(await p.queue.sync({ device_id, sessions_digest: "", token_issued_at: 1 })).toEqual(removed);
      expect(await p.queue.beginSet({ device_id })).toEqual(removed);
      expect(await p.queue.storeDigest({ device_id, sessions_digest: "ab", set_version: 1 })).toEqual(
        removed,
      );
    }
  });

  it("tells whether its set of sessions is the one that was stored, per device", async () => {
    const p = await shared();
    const [one, two] = ["1", "2"].map((digit) => digit.repeat(64)) as [string, string];
    const matches = async (device_id: string, sessions_digest: string) => {
      const pass = await p.queue.sync({ device_id, sessions_digest, token_issued_at: 1 });
      return pass.ok && pass.digest_matches;
    };
    expect(await matches(p.device_id, one)).toBe(false);
    expect(await store(p.queue, p.device_id, one)).toEqual({ ok: true, won: true });
    expect(await matches(p.device_id, one)).toBe(true);
    expect(await matches(p.device_id, two)).toBe(false);
    expect(await matches(p.other.device_id, one)).toBe(false);
  });

  it("is told of no set while one is on its way to D1, and of the later one of two", async () => {
    const p = await shared();
    const { device_id } = p;
    const [one, two] = ["1", "2"].map((digit) => digit.repeat(64)) as [string, string];
    const matches = async (sessions_digest: string) => {
      const pass = await p.queue.sync({ device_id, sessions_digest, token_issued_at: 1 });
      return pass.ok && pass.digest_matches;
    };
    await store(p.queue, device_id, one);
    const first = await begun(p.queue, device_id);
    expect(await matches(one)).toBe(false);
    const second = await begun(p.queue, device_id);
    expect(second).toBeGreaterThan(first);
    const digest = (sessions_digest: string, set_version: number) =>
      p.queue.storeDigest({ device_id, sessions_digest, set_version });
    expect(await digest(one, first)).toEqual({ ok: true, won: false });
    expect(await matches(one)).toBe(false);
    expect(await digest(two, second)).toEqual({ ok: true, won: true });
    expect(await digest(one, first)).toEqual({ ok: true, won: false });
    expect(await matches(two)).toBe(true);
  });
});

describe("a device that shares nothing any more", () => {
  it("gets no new commands, keeps those it has, and gets new ones when it shares again", async () => {
    const p = await newProject();
    const [early, late] = [request(p), request(p)];
    await store(p.queue, p.device_id, "1".repeat(64));
    expect(await p.queue.enqueue(early)).toMatchObject({ ok: true, created: true });
    expect(await store(p.queue, p.device_id, EMPTY_DIGEST)).toEqual({ ok: true, won: true });
    expect(await p.queue.enqueue(early)).toMatchObject({ ok: true, created: false });
    expect(await p.queue.enqueue(late)).toEqual({ ok: false, error: "not_shared" });
    const pass = { device_id: p.device_id, sessions_digest: EMPTY_DIGEST, token_issued_at: 1 };
    expect(await p.queue.sync(pass)).toMatchObject({ commands: [{ command_id: early.command_id }] });
    await begun(p.queue, p.device_id);
    expect(await p.queue.enqueue(late)).toMatchObject({ ok: true, created: true });
  });

  it("is known by the digest of an empty set", async () => {
    expect(await sessionsDigest([])).toBe(EMPTY_DIGEST);
  });
});

describe("an agent without access", () => {
  it("queues and sees nothing", async () => {
    const p = await newProject();
    for (const agent_id of [newId("agt", systemRandom), ...MALFORMED]) {
      expect(await p.queue.enqueue(request(p, { agent_id }))).toEqual({ ok: false, error: "access_removed" });
      expect(await p.queue.presence({ agent_id })).toBe(undefined);
    }
  });

  it("has its keys kept here for runs elsewhere, and learns of no one else's", async () => {
    const p = await newProject();
    const theirs = request(p);
    await p.queue.enqueue(theirs);
    const own = { ...theirs, agent_id: newId("agt", systemRandom), command_id: request(p).command_id };
    expect(await p.queue.claimKey(own)).toEqual({ ok: true });
    expect(await p.queue.claimKey({ ...own, command_id: request(p).command_id })).toMatchObject({
      error: "key_taken",
      command_id: own.command_id,
    });
    expect(await p.queue.enqueue(theirs)).toMatchObject({ ok: true, created: false });
  });

  it("is what one that asks for a removed device's session is treated as", async () => {
    const p = await newProject();
    const asked = request(p, { device_id: newId("dev", systemRandom) });
    expect(await p.queue.enqueue(asked)).toEqual({ ok: false, error: "access_removed" });
  });
});

describe("a change of access", () => {
  it("that removes an agent cancels what it queued, stops what it runs, and answers those who wait", async () => {
    const p = await shared();
    const [queued = "", running = "", ended = ""] = p.ids;
    const waiting = [queued, running].map((command_id) =>
      p.queue.getRun({ agent_id: p.agent_id, command_id, wait_ms: 50_000 }),
    );
    await p.queue.applyAccess(accessOf(p, { version: 3, ...p.lists, agents: p.lists.agents.slice(1) }));
    expect(await Promise.all(waiting)).toEqual([undefined, undefined]);
    const pass = await p.queue.sync({ device_id: p.device_id, sessions_digest: "", token_issued_at: 1 });
    expect(pass).toMatchObject({ commands: [] });
    expect(await p.queue.start({ device_id: p.device_id, command_id: queued, attempt_id: uuid() })).toEqual({
      ok: true,
      value: { go: false, status: "cancelled" },
    });
    // The same client that connects again is the same agent, and sees what became of its runs.
    await p.queue.applyAccess(accessOf(p, { version: 4, ...p.lists }));
    expect(await views(p, p.ids)).toMatchObject([
      { status: "cancelled", reason: CANCEL_REASONS.agent_removed, cancel_requested: false },
      { status: "running", cancel_requested: true },
      { status: "completed", cancel_requested: false, command_id: ended },
    ]);
  });

  it("tells a relay to stop the run of a removed agent, also one whose laptop slept through the change", async () => {
    const p = await newProject();
    const mine = await Promise.all(
      [request(p), request(p)].map(async (asked) => {
        await p.queue.enqueue(asked);
        const at = { device_id: p.device_id, command_id: asked.command_id, attempt_id: uuid() };
        await p.queue.start(at);
        return at;
      }),
    );
    const [awake, asleep] = mine as [(typeof mine)[0], (typeof mine)[0]];
    vi.setSystemTime(START + 89_000);
    await p.queue.control(awake);
    vi.setSystemTime(START + 90_000);
    await p.queue.applyAccess(accessOf(p, { version: 2, agents: [] }));
    for (const at of [awake, asleep])
      expect(await p.queue.control(at)).toMatchObject({ value: { alive: true, cancel_requested: true } });
  });

  it("that removes a device cancels what is queued for it, and says why", async () => {
    const p = await shared();
    const [queued = "", running = ""] = p.ids;
    const waiting = p.queue.getRun({ agent_id: p.agent_id, command_id: queued, wait_ms: 50_000 });
    await p.queue.applyAccess(accessOf(p, { version: 3, ...p.lists, devices: p.lists.devices.slice(1) }));
    expect(await waiting).toMatchObject({
      status: "cancelled",
      reason: CANCEL_REASONS.device_removed,
      finished_at: START,
      desktop: { online: false, last_seen_at: null },
    });
    vi.setSystemTime(START + 90_000);
    expect(await p.queue.getRun({ agent_id: p.agent_id, command_id: running, wait_ms: 0 })).toMatchObject({
      status: "lost",
    });
  });

  it("that is older than what is held, or as old, changes nothing", async () => {
    const p = await shared();
    const before = await views(p, p.ids);
    for (const version of [2, 1, 0]) {
      await p.queue.applyAccess(accessOf(p, { version, agents: [], devices: [] }));
      expect(await views(p, p.ids)).toEqual(before);
    }
  });

  it("brings new names and new settings, for what begins from then on", async () => {
    const p = await newProject();
    const [early, late] = [request(p), request(p)];
    await p.queue.enqueue(early);
    const settings = {
      ...DEFAULT_SETTINGS,
      queue_expiry_seconds: 600,
      lease_seconds: 30,
      retention_seconds: 3600,
    };
    const agents = [{ agent_id: p.agent_id, name: "Cursor" }];
    await p.queue.applyAccess(accessOf(p, { version: 2, agents, settings }));
    expect(await p.queue.enqueue(late)).toMatchObject({ run: { expires_at: START + 600_000 } });
    const pass = await p.queue.sync({ device_id: p.device_id, sessions_digest: "", token_issued_at: 1 });
    expect(pass).toMatchObject({
      commands: [
        { agent_name: "Cursor", expires_at: START + DEFAULT_SETTINGS.queue_expiry_seconds * 1000 },
        { agent_name: "Cursor", expires_at: START + 600_000 },
      ],
    });
    const mine = { device_id: p.device_id, command_id: early.command_id, attempt_id: uuid() };
    expect(await p.queue.start(mine)).toMatchObject({ value: { lease_seconds: 30 } });
    await p.queue.complete({ ...mine, completion: completion() });
    expect(await views(p, [early.command_id])).toMatchObject([{ kept_until: START + 3_600_000 }]);
  });

  it("takes lists of thousands in one call", async () => {
    const p = await newProject();
    const many: Pick<ProjectAccess, "agents" | "devices"> = {
      agents: Array.from({ length: 3000 }, () => ({
        agent_id: newId("agt", systemRandom),
        name: "\ud83e\udd16 'x'",
      })),
      devices: Array.from({ length: 3000 }, () => ({ device_id: newId("dev", systemRandom) })),
    };
    await p.queue.applyAccess(accessOf(p, { version: 2, ...many }));
    const agent_id = many.agents[2999]?.agent_id ?? "";
    expect(Object.keys((await p.queue.presence({ agent_id })) ?? {})).toHaveLength(3000);
  });
});

describe("an object that was never set up, or was destroyed", () => {
  const UNKNOWN = { ok: false, error: "project_not_found" };

  async function expectNothingThere(queue: ProjectQueueApi, p: Project) {
    const at = { device_id: p.device_id, command_id: request(p).command_id, attempt_id: uuid() };
    expect(await queue.enqueue(request(p))).toEqual({ ok: false, error: "access_removed" });
    expect(await queue.claimKey(request(p))).toEqual({ ok: false, error: "access_removed" });
    expect(await queue.findKey(request(p))).toBe(undefined);
    expect(await queue.releaseKey(request(p))).toBe(undefined);
    expect(await queue.getRun({ ...at, agent_id: p.agent_id, wait_ms: 50_000 })).toBe(undefined);
    expect(await queue.cancel({ ...at, agent_id: p.agent_id })).toBe(undefined);
    expect(await queue.presence({ agent_id: p.agent_id })).toBe(undefined);
    const digest = { device_id: p.device_id, sessions_digest: "" };
    expect(await queue.sync({ ...digest, token_issued_at: 1 })).toEqual(UNKNOWN);
    expect(await queue.beginSet({ device_id: p.device_id })).toEqual(UNKNOWN);
    expect(await queue.storeDigest({ ...digest, set_version: 1 })).toEqual(UNKNOWN);
    expect(await queue.start(at)).toEqual(UNKNOWN);
    expect(await queue.control(at)).toEqual(UNKNOWN);
    expect(await queue.complete({ ...at, completion: completion() })).toEqual(UNKNOWN);
  }
  const tables = (p: Pick<Project, "stub">) =>
    runInDurableObject(p.stub, (_: unknown, state) =>
      state.storage.sql
        .exec("select name from sqlite_master where name not like '\\_cf%' escape '\\'")
        .toArray(),
    );

  it("answers as for something unknown, and holds no tables for having been asked", async () => {
    const project_id = newProjectId(systemRandom);
    const stub = env.PROJECT_QUEUE.getByName(project_id);
    const p = { ...(await newProject()), project_id, stub: stub as Project["stub"] };
    await expectNothingThere(stub as unknown as ProjectQueueApi, p);
    expect(await tables(p)).toEqual([]);
  });

  it("lets those who wait go, keeps nothing, and can be set up anew", async () => {
    const p = await shared();
    const [queued = ""] = p.ids;
    const waiting = p.queue.getRun({ agent_id: p.agent_id, command_id: queued, wait_ms: 50_000 });
    await p.queue.destroy();
    expect(await waiting).toBe(undefined);
    await expectNothingThere(p.queue, p);
    expect(await tables(p)).toEqual([]);
    expect(await runInDurableObject(p.stub, (_: unknown, state) => state.storage.getAlarm())).toBe(null);
    await p.queue.destroy();
    await p.queue.applyAccess(accessOf(p));
    expect(await views(p, p.ids)).toEqual([undefined, undefined, undefined]);
    expect(await p.queue.enqueue(request(p))).toMatchObject({ created: true });
  });
});
