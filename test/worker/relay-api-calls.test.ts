import { env } from "cloudflare:workers";
import { afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { boundCompletion } from "../../src/protocol/completion.ts";
import { newCommandId } from "../../src/protocol/ids.ts";
import { findJsonFault } from "../../src/protocol/json.ts";
import { LIMITS, MINIMUM_RELAY_VERSION } from "../../src/protocol/limits.ts";
import { systemRandom } from "../../src/protocol/ports.ts";
import { RELAY_PATH, type SessionMetadata, sessionsDigest } from "../../src/protocol/relay-api.ts";
import { storeSessions } from "../../src/worker/db/session-sync.ts";
import { retryingQueues } from "../../src/worker/queues.ts";
import { isSupported } from "../../src/worker/relay-api/version.ts";
import {
  addDevice,
  addProject,
  callTool,
  fetchMcp,
  fetchRelay,
  get,
  giveAccess,
  newAccount,
  newWorld,
  ORIGIN,
  REVISIONS,
  type RpcAnswer,
  rpcRequest,
  run,
  session,
  TestDevice,
  useQueues,
  uuid,
} from "./support/endpoint.ts";

interface Failure {
  error: string;
  error_description: string;
  server_time?: number;
}
const failure = async (response: Response) => ({
  status: response.status,
  ...(await response.json<Failure>()),
});

const pass = async (project_id: string, sessions: readonly SessionMetadata[], more: object = {}) => ({
  project_id,
  sessions_digest: await sessionsDigest(sessions),
  client_version: "0.1.0",
  ...more,
});

/** A session's row as D1 has it. */
const row = (project_id: string, graph_session_id: string) =>
  env.DB.prepare("SELECT * FROM graph_sessions WHERE project_id = ? AND graph_session_id = ?")
    .bind(project_id, graph_session_id)
    .first<Record<string, unknown>>();

/** How often work asks D1 for anything. */
async function d1Calls(work: () => Promise<unknown>): Promise<number> {
  const prepare = vi.spyOn(env.DB, "prepare");
  await work();
  const calls = prepare.mock.calls.length;
  prepare.mockRestore();
  return calls;
}

describe("sync", () => {
  it("asks for the set when the digest is new, stores it, and then neither reads nor writes D1", async () => {
    const world = await newWorld({ sessions: [] });
    const sessions = [session(), session()];
    const unknown = await world.device.call("/sync", await pass(world.project_id, sessions));
    expect(await unknown.json()).toEqual({
      commands: [],
      next_poll_seconds: LIMITS.pollSeconds,
      sessions: "send",
      set_version: expect.any(Number),
      minimum_version: MINIMUM_RELAY_VERSION,
    });
    expect((await world.device.sync(world.project_id, sessions)).sessions).toBe("stored");
    const calls = await d1Calls(async () => {
      expect((await world.device.sync(world.project_id, sessions)).sessions).toBe("unchanged");
      expect((await world.device.sync(world.project_id, sessions, false)).sessions).toBe("unchanged");
    });
    expect(calls).toBe(0);
  });

  it("keeps when a session was first shared, and a trace of one that no longer is", async () => {
    const world = await newWorld({ sessions: [] });
    const [one, two] = [session(), session()];
    await world.device.sync(world.project_id, [one, two]);
    const first = (await row(world.project_id, one.graph_session_id))?.first_shared_at;
    await world.device.sync(world.project_id, [two]);
    expect((await row(world.project_id, one.graph_session_id))?.unshared_at).toBeTypeOf("number");
    await world.device.sync(world.project_id, [{ ...one, name: "Renamed", version: "2" }, two]);
    expect(await row(world.project_id, one.graph_session_id)).toMatchObject({
      first_shared_at: first,
      unshared_at: null,
      name: "Renamed",
      version: "2",
    });
  });

  it("leaves the later of two sets standing, in whichever order D1 is given them", async () => {
    const world = await newWorld({ sessions: [] });
    const [early, late] = [session(), session()];
    const next = Date.now() + 60_000;
    const store = (set_version: number, sessions: SessionMetadata[]) =>
      storeSessions(env.DB, {
        project_id: world.project_id,
        device_id: world.device.auth.device_id,
        sessions,
        set_version,
        now: set_version,
      });
    expect(await store(next + 1, [late])).toEqual({ stored: true });
    expect(await store(next, [early])).toEqual({ stored: false, foreign: [] });
    expect(await row(world.project_id, early.graph_session_id)).toBeNull();
    expect(await row(world.project_id, late.graph_session_id)).toMatchObject({ unshared_at: null });
  });

  it("takes no copy of an earlier set that comes late", async () => {
    const world = await newWorld({ sessions: [] });
    const sessions = [session()];
    const asked = await world.device.call("/sync", await pass(world.project_id, sessions));
    const { set_version } = await asked.json<{ set_version: number }>();
    const request = await pass(world.project_id, sessions, { sessions, set_version });
    expect(await (await world.device.call("/sync", request)).json()).toMatchObject({ sessions: "stored" });
    await world.device.sync(world.project_id, []);
    const late = await world.device.call("/sync", request);
    expect(await failure(late)).toMatchObject({ status: 503, error: "unavailable" });
    expect(await row(world.project_id, sessions[0]?.graph_session_id ?? "")).not.toMatchObject({
      unshared_at: null,
    });
  });

  it("stores a set whose first try broke off between D1 and the object, and the one before it anew", async () => {
    const world = await newWorld({ sessions: [] });
    const [before, after] = [[session()], [session()]];
    await world.device.sync(world.project_id, before);
    const device_id = world.device.auth.device_id;
    const begun = await env.PROJECT_QUEUE.getByName(world.project_id).beginSet({ device_id });
    if (!begun.ok) throw new Error(begun.error);
    const { set_version } = begun;
    await storeSessions(env.DB, {
      project_id: world.project_id,
      device_id,
      sessions: after,
      set_version,
      now: 1,
    });
    expect((await world.device.sync(world.project_id, before)).sessions).toBe("stored");
    expect(await row(world.project_id, after[0]?.graph_session_id ?? "")).not.toMatchObject({
      unshared_at: null,
    });
  });

  it("forgets a trace once no key can name a run of that session", async () => {
    const world = await newWorld();
    await world.device.sync(world.project_id, []);
    const age = (days: number) =>
      env.DB.prepare("UPDATE graph_sessions SET unshared_at = ? WHERE graph_session_id = ?")
        .bind(Date.now() - days * 24 * 60 * 60 * 1000, world.session_id)
        .run();
    await age(399);
    await world.device.sync(world.project_id, [session()]);
    expect(await row(world.project_id, world.session_id)).not.toBeNull();
    await age(401);
    await world.device.sync(world.project_id, [session()]);
    expect(await row(world.project_id, world.session_id)).toBeNull();
  });

  it("keeps a trace while the session is shared with another project, as its keys are kept there", async () => {
    const { account_id, device_id } = await newAccount();
    const [first, later] = [await addProject(account_id), await addProject(account_id)];
    for (const project of [first, later]) await giveAccess(project, [], [device_id]);
    const device = new TestDevice(account_id, device_id, [first, later]);
    const shared = session();
    for (const project of [first, later]) await device.sync(project, [shared]);
    await device.sync(first, []);
    await env.DB.prepare("UPDATE graph_sessions SET unshared_at = 1 WHERE unshared_at IS NOT NULL").run();
    await device.sync(first, [session()]);
    expect(await row(first, shared.graph_session_id)).not.toBeNull();
    await device.sync(later, []);
    await env.DB.prepare("UPDATE graph_sessions SET unshared_at = 1 WHERE unshared_at IS NOT NULL").run();
    await device.sync(first, [session()]);
    expect(await row(first, shared.graph_session_id)).toBeNull();
  });

  it("keeps a schema's values, odd ones too", async () => {
    const world = await newWorld({ sessions: [] });
    const schema = JSON.parse('{"__proto__":{"x":"\\u0000\\ud800"},"enum":[1e300,"\\"😀",null]}');
    const shared = session({ arguments_schema: schema });
    await world.device.sync(world.project_id, [shared]);
    const stored = String((await row(world.project_id, shared.graph_session_id))?.arguments_schema);
    expect(JSON.stringify(JSON.parse(stored))).toBe(JSON.stringify(schema));
  });

  it("takes 100 sessions with large schemas in one pass, and refuses 101", async () => {
    const world = await newWorld({ sessions: [] });
    const schema = { title: "한".repeat(2_900) };
    const sessions = Array.from({ length: 100 }, (_, i) =>
      session({ name: `s${i}`, arguments_schema: schema }),
    );
    expect((await world.device.sync(world.project_id, sessions)).sessions).toBe("stored");
    const count = await env.DB.prepare("SELECT count(*) AS n FROM graph_sessions WHERE project_id = ?")
      .bind(world.project_id)
      .first("n");
    expect(count).toBe(100);
    const more = [...sessions, session()].map(({ arguments_schema: _, ...rest }) => rest);
    const refused = await failure(
      await world.device.call("/sync", await pass(world.project_id, more, { sessions: more })),
    );
    expect(refused).toMatchObject({ status: 400, error: "invalid_request" });
    expect(refused.error_description).toContain("sessions");
  });

  it("never takes a session over from another paired device: the whole set is refused", async () => {
    const world = await newWorld();
    const otherId = await addDevice(world.account_id);
    await giveAccess(world.project_id, [world.agent], [world.device_id, otherId]);
    const other = new TestDevice(world.account_id, otherId, [world.project_id]);
    const mine = session();
    const set = [mine, ...world.sessions];
    const refused = await failure(
      await other.call("/sync", await pass(world.project_id, set, { sessions: set })),
    );
    expect(refused).toMatchObject({ status: 409, error: "session_conflict" });
    expect(refused.error_description).toContain(world.session_id);
    expect(await row(world.project_id, mine.graph_session_id)).toBeNull();
    expect(await row(world.project_id, world.session_id)).toMatchObject({ device_id: world.device_id });
    expect((await other.sync(world.project_id, set, false)).sessions).toBe("send");
  });

  it("does take over from a device that was removed: the same laptop, paired anew", async () => {
    const world = await newWorld();
    await env.DB.prepare("UPDATE devices SET removed_at = 1 WHERE id = ?").bind(world.device_id).run();
    const otherId = await addDevice(world.account_id);
    await giveAccess(world.project_id, [world.agent], [otherId]);
    const other = new TestDevice(world.account_id, otherId, [world.project_id]);
    expect((await other.sync(world.project_id, world.sessions)).sessions).toBe("stored");
    expect(await row(world.project_id, world.session_id)).toMatchObject({
      device_id: otherId,
      unshared_at: null,
    });
  });

  it("a set whose digest is another's stores nothing", async () => {
    const world = await newWorld({ sessions: [] });
    const sent = [session()];
    const body = await pass(world.project_id, [session()], { sessions: sent });
    expect(await failure(await world.device.call("/sync", body))).toMatchObject({
      status: 409,
      error: "digest_mismatch",
    });
    expect(await row(world.project_id, sent[0]?.graph_session_id ?? "")).toBeNull();
  });

  it("a set with the same id twice is refused", async () => {
    const world = await newWorld({ sessions: [] });
    const one = session();
    const body = await pass(world.project_id, [one, one], { sessions: [one, one] });
    expect(await failure(await world.device.call("/sync", body))).toMatchObject({ error: "invalid_request" });
  });

  it("fields of a newer relay are ignored, and its digest of them still holds", async () => {
    const world = await newWorld({ sessions: [] });
    const newer = { ...session(), icon: "📈" };
    const body = { ...(await pass(world.project_id, [newer], { sessions: [newer] })), battery: 0.5 };
    const response = await world.device.call("/sync", body);
    expect(await response.json()).toMatchObject({ sessions: "stored" });
  });

  it("gives a device its own sessions' commands only, oldest first, at most 20", async () => {
    const world = await newWorld({ settings: { max_queued_per_agent: 30 } });
    const otherId = await addDevice(world.account_id);
    await giveAccess(world.project_id, [world.agent], [world.device_id, otherId], {
      max_queued_per_agent: 30,
    });
    const other = new TestDevice(world.account_id, otherId, [world.project_id]);
    await other.sync(world.project_id, [session()]);
    const ids: unknown[] = [];
    for (let i = 0; i < 22; i++)
      ids.push((await run(world.agent, world.session_id, { i })).structuredContent.command_id);
    expect((await other.sync(world.project_id, [], false)).commands).toEqual([]);
    const { commands } = await world.device.sync(world.project_id, world.sessions);
    expect(commands.map((c) => c.command_id)).toEqual(ids.slice(0, 20));
    expect(commands[0]).toMatchObject({ slug: "report", agent_name: "Claude", arguments: { i: 0 } });
  });

  it.each(["0.0.9", "0.0.1", "0.1.0-beta.1"])(
    "a relay of version %s is told to update: 426",
    async (version) => {
      const world = await newWorld({ sessions: [] });
      const body = await pass(world.project_id, [], { client_version: version });
      expect(await failure(await world.device.call("/sync", body))).toMatchObject({
        status: 426,
        error: "version_unsupported",
      });
    },
  );

  it("versions compare by number, a pre-release before its release", () => {
    expect(isSupported("1.10.0", "1.9.0")).toBe(true);
    expect(isSupported("1.9.0", "1.10.0")).toBe(false);
    expect(isSupported("1.0.0", "1.0.0")).toBe(true);
    expect(isSupported("1.0.0-rc.1", "1.0.0")).toBe(false);
    expect(isSupported("1.0.1-rc.1", "1.0.0")).toBe(true);
    expect(isSupported("2.0.0+build-5", "2.0.0")).toBe(true);
  });
});

describe("who may call", () => {
  const CALLS = [
    "/sync",
    `/commands/${uuid()}/start`,
    `/commands/${uuid()}/control`,
    `/commands/${uuid()}/complete`,
  ];

  it.each(CALLS)("%s without a token: 401 with the server's time, before the body is read", async (path) => {
    const request = (headers: Record<string, string>) =>
      fetchRelay(new Request(`${ORIGIN}${RELAY_PATH}${path}`, { method: "POST", headers, body: "{" }));
    for (const headers of [{}, { authorization: "Bearer x y" }]) {
      const answer = await failure(await request(headers as Record<string, string>));
      expect(answer).toMatchObject({ status: 401, error: "token_invalid" });
      expect(Math.abs(Number(answer.server_time) - Date.now())).toBeLessThan(60_000);
    }
  });

  it("a removed device gets 403 on each call, by the object's own list", async () => {
    const world = await newWorld();
    const id = String((await run(world.agent, world.session_id)).structuredContent.command_id);
    await giveAccess(world.project_id, [world.agent], []);
    await env.DB.prepare("UPDATE devices SET removed_at = 1 WHERE id = ?").bind(world.device_id).run();
    const attempt_id = uuid();
    const calls: [string, object][] = [
      ["/sync", await pass(world.project_id, world.sessions)],
      [`/commands/${id}/start`, { attempt_id }],
      [`/commands/${id}/control`, { attempt_id }],
      [`/commands/${id}/complete`, { attempt_id, execution_id: uuid(), status: "completed" }],
    ];
    for (const [path, body] of calls)
      expect(await failure(await world.device.call(path, body)), path).toMatchObject({
        status: 403,
        error: "device_removed",
      });
  });

  it("a device that its object was not told of yet is asked to try again, and is known then", async () => {
    const world = await newWorld();
    await giveAccess(world.project_id, [world.agent], []);
    await env.DB.prepare("UPDATE projects SET access_version = 1000000 WHERE id = ?")
      .bind(world.project_id)
      .run();
    const sync = async () => world.device.call("/sync", await pass(world.project_id, world.sessions));
    expect(await failure(await sync())).toMatchObject({ status: 503, error: "unavailable" });
    expect((await sync()).status).toBe(200);
  });

  it("another account's project, an unknown one and one without lists are answered alike", async () => {
    const mine = await newWorld();
    const theirs = await newWorld();
    const empty = await addProject(mine.account_id);
    const device = new TestDevice(mine.account_id, mine.device_id, [mine.project_id, empty]);
    const answers = await Promise.all(
      [theirs.project_id, "prj_000000000000", empty].map(async (project) => {
        const response = await device.call("/sync", await pass(project, []));
        return `${response.status} ${await response.text()}`;
      }),
    );
    expect(new Set(answers).size).toBe(1);
    expect(answers[0]).toContain("project_not_found");
  });

  it("unknown, foreign, another device's and malformed commands are answered alike on every call", async () => {
    const mine = await newWorld();
    const theirs = await newWorld();
    const otherId = await addDevice(mine.account_id);
    await giveAccess(mine.project_id, [mine.agent], [mine.device_id, otherId]);
    const other = new TestDevice(mine.account_id, otherId, [mine.project_id]);
    const id = String((await run(mine.agent, mine.session_id)).structuredContent.command_id);
    const foreign = String((await run(theirs.agent, theirs.session_id)).structuredContent.command_id);
    const unknown = `${id.slice(0, 24)}000000000000`;
    const attempt_id = uuid();
    const bodies = {
      start: { attempt_id },
      control: { attempt_id },
      complete: { attempt_id, execution_id: uuid(), status: "completed" },
    };
    for (const [call, body] of Object.entries(bodies)) {
      const answers = await Promise.all(
        [id, foreign, unknown, uuid(), "x", "%00", "%F0%9F%98%80"].map(async (command) => {
          const response = await other.call(`/commands/${command}/${call}`, body);
          return `${response.status} ${await response.text()}`;
        }),
      );
      expect(new Set(answers), call).toHaveLength(1);
      expect(answers[0]).toContain("command_not_found");
    }
    expect((await mine.device.sync(mine.project_id, mine.sessions)).commands).toHaveLength(1);
  });
});

describe("bodies that do not fit", () => {
  let world: Awaited<ReturnType<typeof newWorld>>;
  beforeAll(async () => {
    world = await newWorld();
  });
  const attempt_id = uuid();

  it.each<[string, string, unknown, string]>([
    ["/sync", "no JSON", "{", "not JSON"],
    ["/sync", "an array", [], "object"],
    ["/sync", "a project id that is none", { project_id: "s3cret" }, "project_id"],
    ["/commands/ID/start", "no attempt", {}, "attempt_id"],
    ["/commands/ID/start", "an attempt in capitals", { attempt_id: attempt_id.toUpperCase() }, "attempt_id"],
    [
      "/commands/ID/control",
      "percent 101",
      { attempt_id, progress: { state: "running", percent: 101 } },
      "progress.percent",
    ],
    [
      "/commands/ID/control",
      "an unknown state",
      { attempt_id, progress: { state: "s3cret" } },
      "progress.state",
    ],
    [
      "/commands/ID/control",
      "an escape sequence as message",
      { attempt_id, progress: { state: "running", message: "\u001b[2Js3cret" } },
      "progress.message",
    ],
    [
      "/commands/ID/complete",
      "a status that is none",
      { attempt_id, execution_id: attempt_id, status: "s3cret" },
      "status",
    ],
    [
      "/commands/ID/complete",
      "an error of 2,001 characters",
      { attempt_id, execution_id: attempt_id, status: "failed", error: "e".repeat(2001) },
      "error",
    ],
    [
      "/commands/ID/complete",
      "negative tokens",
      { attempt_id, execution_id: attempt_id, status: "failed", total_tokens: -1 },
      "total_tokens",
    ],
    [
      "/commands/ID/complete",
      "a result that nests 201 levels",
      `{"attempt_id":"${attempt_id}","execution_id":"${attempt_id}","status":"completed","result":${"[".repeat(201)}${"]".repeat(201)}}`,
      "deeper than 200",
    ],
  ])("%s with %s: 400, names the field, not the content", async (path, _, body, field) => {
    const { agent, device, session_id } = world;
    const id = String((await run(agent, session_id)).structuredContent.command_id);
    const answer = await failure(await device.call(path.replace("ID", id), body));
    expect(answer).toMatchObject({ status: 400, error: "invalid_request" });
    expect(answer.error_description).toContain(field);
    expect(answer.error_description).not.toContain("s3cret");
    await device.call(`/commands/${id}/complete`, { execution_id: uuid(), status: "cancelled" });
  });

  it("a body over the limit: 413, by its length or as it arrives", async () => {
    const { device, project_id } = world;
    const body = `{"project_id":"${project_id}","x":"${"x".repeat(LIMITS.relayBodyBytes)}"}`;
    expect(await failure(await device.call("/sync", body))).toMatchObject({
      status: 413,
      error: "body_too_large",
    });
  });

  it("an emoji across character 2,000 of an error is cut before it by the relay, and arrives", async () => {
    const { agent, device, session_id } = world;
    const id = String((await run(agent, session_id)).structuredContent.command_id);
    const attempt = uuid();
    await device.start(id, attempt);
    const completion = boundCompletion({
      execution_id: uuid(),
      status: "failed",
      error: `${"e".repeat(1999)}😀 and more`,
    });
    expect(completion.error).toHaveLength(1999);
    expect((await device.complete(id, attempt, completion)).status).toBe(200);
  });

  it("numbers that a Graph can return are taken: a double's own text is no fault", () => {
    expect(findJsonFault(JSON.stringify({ result: [2 ** 60, 1e21, 2 ** 53 + 2] }))).toBeUndefined();
  });
});

describe("the calls of a run", () => {
  it("start, control and complete answer alike when they are repeated", async () => {
    const world = await newWorld();
    const id = String((await run(world.agent, world.session_id)).structuredContent.command_id);
    const attempt_id = uuid();
    const twice = async (path: string, body: object) => {
      const first = await (await world.device.call(path, body)).json();
      const second = await (await world.device.call(path, body)).json();
      return [first, second];
    };
    const go = { go: true, lease_seconds: 90 };
    expect(await twice(`/commands/${id}/start`, { attempt_id })).toEqual([go, go]);
    const alive = { alive: true, cancel_requested: false, lease_seconds: 90 };
    expect(await twice(`/commands/${id}/control`, { attempt_id })).toEqual([alive, alive]);
    const outcome = { attempt_id, execution_id: uuid(), status: "completed", result: [1] };
    expect(await twice(`/commands/${id}/complete`, outcome)).toEqual([
      { record: "stored", status: "completed" },
      { record: "already_stored", status: "completed" },
    ]);
    expect(await (await world.device.call(`/commands/${id}/start`, { attempt_id: uuid() })).json()).toEqual({
      go: false,
      status: "completed",
    });
  });
});

describe("an object that fails", () => {
  /** Every object throws this. */
  const broken = (properties: object) =>
    useQueues(
      retryingQueues({
        open: () => {
          throw Object.assign(new Error("SQLITE_CORRUPT: s3cret"), properties);
        },
        random: systemRandom,
        sleep: async () => {},
      }),
    );
  let world: Awaited<ReturnType<typeof newWorld>>;
  beforeAll(async () => {
    world = await newWorld();
  });
  afterEach(() => {
    useQueues();
    vi.restoreAllMocks();
  });

  it.each([{ overloaded: true }, { retryable: true }])(
    "%j: the relay is told when to come back",
    async (how) => {
      broken(how);
      const response = await world.device.call("/sync", await pass(world.project_id, []));
      expect(response.headers.get("retry-after")).toBe("5");
      expect(await failure(response)).toMatchObject({ status: 503, error: "unavailable" });
    },
  );

  it.each([{ overloaded: true }, { retryable: true }])("%j: the agent is told to call again", async (how) => {
    broken(how);
    const answers = [
      await run(world.agent, world.session_id),
      await callTool(world.agent, "list_graph_sessions", {}),
      await get(world.agent, newCommandId(world.project_id, systemRandom)),
    ];
    for (const answer of answers) {
      expect(answer.structuredContent.error_code).toBe("unavailable");
      expect(answer.text).toContain("Try the same call again");
    }
  });

  it("by a fault inside: both get a reference to the log and nothing of the fault", async () => {
    const log = vi.spyOn(console, "error").mockImplementation(() => {});
    broken({ remote: true });
    const relay = await failure(await world.device.call("/sync", await pass(world.project_id, [])));
    expect(relay).toMatchObject({ status: 500, error: "internal" });
    const params = { name: "list_graph_sessions", arguments: {} };
    for (const revision of REVISIONS) {
      const response = await fetchMcp(rpcRequest(revision, "tools/call", params, { auth: world.agent }));
      expect(response.status).toBe(200);
      const { error } = await response.json<RpcAnswer>();
      expect(error?.code).toBe(-32603);
      const reference = String((error?.data as Record<string, unknown> | undefined)?.correlation_id);
      expect(reference).toMatch(/^[0-9a-f-]{36}$/);
      expect(error?.message).toContain(reference);
      expect(JSON.stringify(log.mock.calls.map((c) => String(c[0])))).toContain(reference);
      expect(JSON.stringify(error)).not.toMatch(/SQLITE|s3cret/);
    }
    expect(JSON.stringify(relay)).not.toMatch(/SQLITE|s3cret/);
  });
});
