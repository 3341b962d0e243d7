import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { ProjectQueueApi } from "../../src/durable/contract.ts";
import { newCommandId } from "../../src/protocol/ids.ts";
import { systemRandom } from "../../src/protocol/ports.ts";
import { findSessionPlaces, type SessionPlace } from "../../src/worker/db/sessions.ts";
import { enqueueOnce, homeOf, targetOf } from "../../src/worker/mcp/placement.ts";
import { retryingQueues } from "../../src/worker/queues.ts";
import {
  addAgent,
  addProject,
  cancel,
  get,
  giveAccess,
  mcpDeps,
  newAccount,
  objectOf,
  run,
  session,
  TestDevice,
  uuid,
} from "./support/endpoint.ts";

afterEach(() => vi.useRealTimers());

// One session, three projects of one agent: A connected first, then B, then C. Sharing moves between them.

async function threeProjects() {
  const { account_id, device_id } = await newAccount();
  const projects = [await addProject(account_id), await addProject(account_id), await addProject(account_id)];
  const agent = await addAgent(account_id, projects);
  for (const project of projects) await giveAccess(project, [agent], [device_id]);
  const device = new TestDevice(account_id, device_id, projects);
  const shared = session();
  const [a = "", b = "", c = ""] = projects;
  /** Shares with exactly these; what is shared for the first time is so a millisecond later than all before. */
  const share = async (...wanted: string[]) => {
    for (const project of projects) {
      await device.sync(project, wanted.includes(project) ? [shared] : []);
      await tick();
    }
  };
  const ask = (key: string, input: object = {}) => run(agent, shared.graph_session_id, input, key);
  return { agent, device, shared, a, b, c, share, ask, session_id: shared.graph_session_id, projects };
}

/** The next millisecond: times of sharing that are to differ must. */
async function tick(): Promise<void> {
  const now = Date.now();
  while (Date.now() === now) await new Promise((resolve) => setTimeout(resolve, 1));
}

const idOf = (answer: { structuredContent: Record<string, unknown> }) => answer.structuredContent.command_id;
const projectOf = (answer: { structuredContent: Record<string, unknown> }) =>
  answer.structuredContent.project_id;

/** How many commands wait for the device, in all the projects. */
async function queuedIn(world: Awaited<ReturnType<typeof threeProjects>>): Promise<number> {
  const passes = await Promise.all(world.projects.map((p) => world.device.sync(p, [], false)));
  return passes.reduce((sum, pass) => sum + pass.commands.length, 0);
}

describe("where a run goes", () => {
  it("to the earliest connected project that it is shared with now", async () => {
    const world = await threeProjects();
    await world.share(world.b, world.c);
    expect(projectOf(await world.ask(uuid()))).toBe(world.b);
    await world.share(world.a, world.b, world.c);
    expect(projectOf(await world.ask(uuid()))).toBe(world.a);
    await world.share(world.c);
    expect(projectOf(await world.ask(uuid()))).toBe(world.c);
  });

  it("home is the first place that could hold a run, and later sharing never moves it", () => {
    const place = (project_id: string, connected_at: number, first_shared_at: number, shared = true) =>
      ({
        project_id,
        connected_at,
        first_shared_at,
        shared,
        device_id: "d",
        slug: "s",
        arguments_schema: null,
      }) satisfies SessionPlace;
    const b = place("b", 2, 10);
    expect(homeOf([b])?.project_id).toBe("b");
    expect(homeOf([b, place("a", 1, 20)])?.project_id).toBe("b");
    expect(homeOf([{ ...b, shared: false }, place("a", 1, 20)])?.project_id).toBe("b");
    expect(targetOf([b, place("a", 1, 20)])?.project_id).toBe("a");
    expect(targetOf([{ ...b, shared: false }])).toBeUndefined();
  });
});

describe("a retry finds its run, however sharing changed in between", () => {
  it("the run went to B; then it is shared with A too", async () => {
    const world = await threeProjects();
    await world.share(world.b);
    const key = uuid();
    const first = await world.ask(key);
    await world.share(world.a, world.b);
    expect(idOf(await world.ask(key))).toBe(idOf(first));
    expect(await queuedIn(world)).toBe(1);
  });

  it("the run went to B; then it is shared with A alone, and then with none", async () => {
    const world = await threeProjects();
    await world.share(world.b);
    const key = uuid();
    const first = await world.ask(key);
    await world.share(world.a);
    expect(idOf(await world.ask(key))).toBe(idOf(first));
    await world.share();
    expect(idOf(await world.ask(key))).toBe(idOf(first));
    expect((await world.ask(uuid())).text).toBe("Graph session not found or access removed");
  });

  it("the run went to A, whose keys are kept at B; then sharing with A ends", async () => {
    const world = await threeProjects();
    await world.share(world.b);
    await world.share(world.a, world.b);
    const key = uuid();
    const first = await world.ask(key);
    expect(projectOf(first)).toBe(world.a);
    for (const shared of [[world.b], [world.c], [world.c, world.b], [], [world.a, world.b, world.c]]) {
      await world.share(...shared);
      expect(idOf(await world.ask(key))).toBe(idOf(first));
    }
    expect(await queuedIn(world)).toBe(1);
  });

  it("the run's whole life is reached through the retry", async () => {
    const world = await threeProjects();
    await world.share(world.b);
    await world.share(world.a, world.b);
    const key = uuid();
    const id = String(idOf(await world.ask(key)));
    const attempt = uuid();
    await world.device.start(id, attempt);
    await world.device.complete(id, attempt, { result: 42 });
    await world.share(world.c);
    expect((await world.ask(key)).structuredContent).toMatchObject({ status: "completed", result: 42 });
  });

  it("the same key with other arguments is a conflict that names the run, wherever that is", async () => {
    const world = await threeProjects();
    await world.share(world.b);
    await world.share(world.a, world.b);
    const key = uuid();
    const first = await world.ask(key, { n: 1 });
    for (const shared of [[world.a, world.b], [world.b], [world.c], []]) {
      await world.share(...shared);
      const answer = await world.ask(key, { n: 2 });
      expect(answer.structuredContent, shared.join()).toMatchObject({
        error_code: "key_conflict",
        command_id: idOf(first),
        status: "queued",
      });
    }
    expect(await queuedIn(world)).toBe(1);
  });

  it("the same key for another session is a conflict, too", async () => {
    const world = await threeProjects();
    await world.share(world.a);
    const key = uuid();
    const first = await world.ask(key);
    const other = session();
    await world.device.sync(world.a, [world.shared, other]);
    const answer = await run(world.agent, other.graph_session_id, {}, key);
    expect(answer.structuredContent).toMatchObject({ error_code: "key_conflict", command_id: idOf(first) });
    expect(answer.text).toContain(String(idOf(first)));
  });

  it("the run went to A, whose keys are kept at B; then the Graph's schema changes", async () => {
    const world = await threeProjects();
    await world.share(world.b);
    await world.share(world.a, world.b);
    const key = uuid();
    const first = await world.ask(key, { n: 1 });
    for (const project of [world.a, world.b])
      await world.device.sync(project, [
        { ...world.shared, arguments_schema: { properties: { n: { type: "string" } } } },
      ]);
    expect(idOf(await world.ask(key, { n: 1 }))).toBe(idOf(first));
    const other = uuid();
    const refused = await world.ask(other, { n: 1 });
    expect(refused.structuredContent).toMatchObject({ error_code: "invalid_arguments" });
    // Nothing was kept of it: the key takes other arguments.
    expect(projectOf(await world.ask(other, { n: "1" }))).toBe(world.a);
    expect(await queuedIn(world)).toBe(2);
  });

  it("a run in a project that the agent has lost is not started again", async () => {
    const world = await threeProjects();
    await world.share(world.b);
    await world.share(world.a, world.b);
    const key = uuid();
    const first = await world.ask(key);
    await env.DB.prepare("DELETE FROM agent_projects WHERE project_id = ?").bind(world.a).run();
    await giveAccess(world.a, [], []);
    const answer = await world.ask(key);
    expect(answer.structuredContent).toMatchObject({ error_code: "key_conflict", command_id: idOf(first) });
    expect(answer.text).toContain("no longer have access");
    expect(projectOf(await world.ask(uuid()))).toBe(world.b);
  });
});

describe("a retry finds its run, however the agent's access changed in between", () => {
  /** Connects the agent to these projects alone, all at once, as a new consent after a revocation does. */
  async function reconnect(world: Awaited<ReturnType<typeof threeProjects>>, ...projects: string[]) {
    const { agent, device } = world;
    await env.DB.prepare("DELETE FROM agent_projects WHERE agent_id = ?").bind(agent.agent_id).run();
    const connected_at = Date.now();
    for (const project of projects)
      await env.DB.prepare("INSERT INTO agent_projects VALUES (?, ?, ?)")
        .bind(agent.agent_id, project, connected_at)
        .run();
    for (const project of world.projects)
      await giveAccess(project, projects.includes(project) ? [agent] : [], [device.auth.device_id]);
  }

  it("the agent was connected anew, to all of them at the same time", async () => {
    for (let round = 0; round < 4; round++) {
      const world = await threeProjects();
      await world.share(world.b);
      const key = uuid();
      const first = await world.ask(key);
      await world.share(world.a, world.b, world.c);
      await reconnect(world, ...world.projects);
      expect(idOf(await world.ask(key))).toBe(idOf(first));
      expect(await queuedIn(world)).toBe(1);
    }
  });

  it("the agent lost the project of its run and of its keys, and got it back", async () => {
    const world = await threeProjects();
    await world.share(world.b);
    await world.share(world.a, world.b);
    await reconnect(world, world.b);
    const key = uuid();
    const first = await world.ask(key);
    expect(projectOf(first)).toBe(world.b);
    await reconnect(world, world.a);
    const lost = await world.ask(key);
    expect(lost.structuredContent).toMatchObject({ error_code: "key_conflict", command_id: idOf(first) });
    const other = uuid();
    const second = await world.ask(other);
    expect(projectOf(second)).toBe(world.a);
    expect((await world.ask(other, { n: 2 })).structuredContent.error_code).toBe("key_conflict");
    await reconnect(world, world.a, world.b);
    expect(idOf(await world.ask(other))).toBe(idOf(second));
    expect((await world.ask(key)).structuredContent.command_id).toBe(idOf(first));
    expect(await queuedIn(world)).toBe(1);
  });

  it("the agent lost the project of a run whose key it then uses for another session", async () => {
    const world = await threeProjects();
    const other = session();
    const ask = (key: string) => run(world.agent, other.graph_session_id, {}, key);
    for (const project of [world.b, world.a]) await world.device.sync(project, [world.shared, other]);
    const key = uuid();
    const first = await world.ask(key);
    expect(projectOf(first)).toBe(world.a);
    await reconnect(world, world.b);
    expect((await ask(key)).structuredContent).toMatchObject({
      error_code: "key_conflict",
      command_id: idOf(first),
    });
    await reconnect(world, world.a, world.b);
    expect(idOf(await world.ask(key))).toBe(idOf(first));
  });

  it("the agent lost the project where its keys are kept, and a run whose key it uses for another session", async () => {
    const world = await threeProjects();
    const other = session();
    await world.device.sync(world.b, [world.shared, other]);
    await tick();
    const key = uuid();
    const first = await world.ask(key);
    await world.device.sync(world.a, [world.shared, other]);
    await reconnect(world, world.a);
    expect((await run(world.agent, other.graph_session_id, {}, key)).structuredContent).toMatchObject({
      error_code: "key_conflict",
      command_id: idOf(first),
    });
  });

  it("the object of the run's project was not told of the new connection yet", async () => {
    const world = await threeProjects();
    await world.share(world.b);
    await world.share(world.a, world.b);
    const key = uuid();
    const first = await world.ask(key);
    await world.share(world.b);
    await giveAccess(world.a, [], [world.device.auth.device_id]);
    expect((await world.ask(key)).structuredContent.error_code).toBe("unavailable");
    await giveAccess(world.a, [world.agent], [world.device.auth.device_id]);
    expect((await world.ask(key)).structuredContent.command_id).toBe(idOf(first));
    expect(await queuedIn(world)).toBe(0);
  });

  it("and arguments that do not fit are told so where the keys are out of reach", async () => {
    const world = await threeProjects();
    await world.share(world.b);
    await world.share(world.a, world.b);
    await world.device.sync(world.a, [
      { ...world.shared, arguments_schema: { properties: { n: { type: "string" } } } },
    ]);
    await reconnect(world, world.a);
    const key = uuid();
    expect((await world.ask(key, { n: 1 })).structuredContent.error_code).toBe("invalid_arguments");
    expect(projectOf(await world.ask(key, { n: "1" }))).toBe(world.a);
  });
});

describe("concurrent calls", () => {
  it("50 identical calls make one run, where its key is kept", async () => {
    const world = await threeProjects();
    await world.share(world.a);
    const key = uuid();
    const answers = await Promise.all(Array.from({ length: 50 }, () => world.ask(key, { n: 1 })));
    expect(new Set(answers.map(idOf)).size).toBe(1);
    expect(await queuedIn(world)).toBe(1);
  });

  it("50 identical calls make one run, where the key is kept in another project", async () => {
    const world = await threeProjects();
    await world.share(world.b);
    await world.share(world.a, world.b);
    const key = uuid();
    const answers = await Promise.all(Array.from({ length: 50 }, () => world.ask(key, { n: 1 })));
    expect(new Set(answers.map(idOf)).size).toBe(1);
    expect(projectOf(answers[0] ?? { structuredContent: {} })).toBe(world.a);
    expect(await queuedIn(world)).toBe(1);
  });

  it("calls under one key with two sets of arguments make one run; the others are told", async () => {
    const world = await threeProjects();
    await world.share(world.b);
    await world.share(world.a, world.b);
    const key = uuid();
    const answers = await Promise.all(Array.from({ length: 20 }, (_, i) => world.ask(key, { n: i % 2 })));
    const tickets = answers.filter((a) => !a.isError);
    expect(new Set(tickets.map(idOf)).size).toBe(1);
    expect(tickets).toHaveLength(10);
    expect(await queuedIn(world)).toBe(1);
  });

  it("sharing that changes while calls are under way makes no second run", async () => {
    for (let round = 0; round < 5; round++) {
      const world = await threeProjects();
      await world.share(world.b);
      const key = uuid();
      const calls = Promise.all(Array.from({ length: 10 }, () => world.ask(key)));
      await world.share(world.a, world.b);
      const later = await Promise.all(Array.from({ length: 10 }, () => world.ask(key)));
      const ids = new Set([...(await calls), ...later].map(idOf));
      expect(ids.size).toBe(1);
      expect(await queuedIn(world)).toBe(1);
    }
  });
});

describe("a Worker that dies on the way", () => {
  /** Claims the key at its home as a call would, and goes no further. */
  async function claimOnly(world: Awaited<ReturnType<typeof threeProjects>>, key: string, project: string) {
    const command_id = newCommandId(project, systemRandom);
    const { agent_id } = world.agent;
    const claim = { agent_id, graph_session_id: world.session_id, idempotency_key: key, command_id };
    await objectOf(world.b).claimKey(claim);
    return command_id;
  }

  it("between the claim and the queue: the retry queues the claimed run", async () => {
    const world = await threeProjects();
    await world.share(world.b);
    await world.share(world.a, world.b);
    const key = uuid();
    const claimed = await claimOnly(world, key, world.a);
    expect(idOf(await world.ask(key))).toBe(claimed);
    expect(await queuedIn(world)).toBe(1);
  });

  it("and sharing has changed: the retry gets a new run where it is shared now", async () => {
    const world = await threeProjects();
    await world.share(world.b);
    await world.share(world.a, world.b);
    const key = uuid();
    await claimOnly(world, key, world.a);
    await world.share(world.c);
    const answer = await world.ask(key);
    expect(projectOf(answer)).toBe(world.c);
    expect(idOf(await world.ask(key))).toBe(idOf(answer));
    expect(await queuedIn(world)).toBe(1);
  });

  it("and the key is then used for another session: it is free", async () => {
    const world = await threeProjects();
    await world.share(world.b);
    await world.share(world.a, world.b);
    const key = uuid();
    await claimOnly(world, key, world.a);
    const other = session();
    await world.device.sync(world.b, [world.shared, other]);
    await tick();
    await world.device.sync(world.a, [world.shared, other]);
    const answer = await run(world.agent, other.graph_session_id, {}, key);
    expect(answer.structuredContent.status).toBe("queued");
  });

  it("or only sleeps: what it claimed is not queued once the key names another run", async () => {
    const world = await threeProjects();
    await world.share(world.b);
    await world.share(world.a, world.b);
    const key = uuid();
    const command_id = await claimOnly(world, key, world.a);
    await world.share(world.c);
    const answer = await world.ask(key);
    await world.share(world.a, world.b, world.c);
    const late = await objectOf(world.a).enqueue({
      agent_id: world.agent.agent_id,
      command_id,
      graph_session_id: world.session_id,
      device_id: world.device.auth.device_id,
      slug: "report",
      arguments_json: "{}",
      idempotency_key: key,
    });
    expect(late).toMatchObject({ ok: false, error: "key_claimed" });
    expect(idOf(await world.ask(key))).toBe(idOf(answer));
    expect(await queuedIn(world)).toBe(1);
  });

  it("long ago: what it claimed is queued under another id, as the old one may have run since", async () => {
    const world = await threeProjects();
    await world.share(world.b);
    await world.share(world.a, world.b);
    const key = uuid();
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() });
    const claimed = await claimOnly(world, key, world.a);
    vi.setSystemTime(Date.now() + 9 * 60_000);
    expect(idOf(await world.ask(key))).toBe(claimed);
    const over = uuid();
    const first = await world.ask(over);
    await cancel(world.agent, idOf(first));
    vi.setSystemTime(Date.now() + 31 * 24 * 60 * 60_000);
    const second = await world.ask(over);
    expect(second.structuredContent).toMatchObject({ status: "queued", project_id: world.a });
    expect(idOf(second)).not.toBe(idOf(first));
    expect(idOf(await world.ask(over))).toBe(idOf(second));
  });

  it("a full queue gives the key back", async () => {
    const world = await threeProjects();
    await world.share(world.b);
    await world.share(world.a, world.b);
    await giveAccess(world.a, [world.agent], [world.device.auth.device_id], { max_queued_per_agent: 1 });
    await world.ask(uuid());
    const key = uuid();
    expect((await world.ask(key)).structuredContent.error_code).toBe("queue_full");
    await world.share(world.c);
    expect(projectOf(await world.ask(key))).toBe(world.c);
  });
});

describe("an object that fails on the way", () => {
  it("is asked again, and the run is queued once", async () => {
    const world = await threeProjects();
    await world.share(world.b);
    await world.share(world.a, world.b);
    const places = await findSessionPlaces(env.DB, world.agent.agent_id, world.session_id);
    const key = uuid();
    let failures = 0;
    const queues = retryingQueues({
      random: systemRandom,
      sleep: async () => {},
      // Every first call is carried out and its answer lost, as when the object is reset.
      open: (project) =>
        new Proxy({} as ProjectQueueApi, {
          get: (_, method: keyof ProjectQueueApi) => async (request: never) => {
            const answer = await (objectOf(project)[method] as (r: never) => Promise<unknown>)(request);
            if (failures++ % 2 === 0) throw Object.assign(new Error("reset"), { retryable: true });
            return answer;
          },
        }),
    });
    const context = { ...mcpDeps, auth: world.agent, db: env.DB, queues, deliverAccess: async () => {} };
    const ask = {
      agent_id: world.agent.agent_id,
      graph_session_id: world.session_id,
      arguments_json: "{}",
      idempotency_key: key,
    };
    const placed = await enqueueOnce(places, ask, context);
    expect(placed.ok).toBe(true);
    expect(await queuedIn(world)).toBe(1);
    const ticket = await world.ask(key);
    expect((await get(world.agent, idOf(ticket))).structuredContent.status).toBe("queued");
  });
});
