import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { boundCompletion } from "../../src/protocol/completion.ts";
import { canonicalJson, type Json } from "../../src/protocol/json.ts";
import { LIMITS } from "../../src/protocol/limits.ts";
import type { AgentAuth } from "../../src/worker/auth.ts";
import {
  addAgent,
  addDevice,
  addProject,
  callTool,
  cancel,
  connect,
  fetchMcp,
  get,
  giveAccess,
  MCP_URL,
  newAccount,
  newWorld,
  REVISIONS,
  type RpcAnswer,
  rpc,
  rpcRequest,
  run,
  session,
  TestDevice,
  token,
  uuid,
} from "./support/endpoint.ts";

const idOf = (ticket: { structuredContent: Record<string, unknown> }) =>
  String(ticket.structuredContent.command_id);

describe("list_graph_sessions", () => {
  const list = (auth: AgentAuth, input: object = {}) => callTool(auth, "list_graph_sessions", input);

  it("answers an empty project with its id and no sessions", async () => {
    const world = await newWorld({ sessions: [] });
    const { structuredContent, text } = await list(world.agent, { project_id: world.project_id });
    expect(structuredContent).toMatchObject({ project_id: world.project_id, sessions: [] });
    expect(text).toContain("Ask the owner to share");
  });

  it("shows a session's facts in fields and in text, and the desktop's presence", async () => {
    const schema = { type: "object", properties: { folder: { type: "string" } } };
    const shared = session({ arguments_schema: schema });
    const world = await newWorld({ sessions: [shared] });
    const { structuredContent, text } = await list(world.agent);
    expect(structuredContent).toMatchObject({
      projects: [{ project_id: world.project_id, name: "Work" }],
      sessions: [{ ...shared, project_id: world.project_id, desktop: { online: true } }],
    });
    for (const fact of [shared.graph_session_id, "Report", "Counts files", canonicalJson(schema), "online"])
      expect(text).toContain(fact);
  });

  it("lists every connected project's, the earliest connected first, and never more than the limit", async () => {
    const { account_id, device_id } = await newAccount();
    const projects = [await addProject(account_id, "B"), await addProject(account_id, "A")];
    const agent = await addAgent(account_id, projects);
    const device = new TestDevice(account_id, device_id, projects);
    for (const project of projects) {
      await giveAccess(project, [agent], [device_id]);
      await device.sync(project, [session({ name: "one" }), session({ name: "two" })]);
    }
    const all = await list(agent);
    expect(all.structuredContent.sessions).toMatchObject(
      projects.flatMap((project_id) => [
        { project_id, name: "one" },
        { project_id, name: "two" },
      ]),
    );
    expect(all.structuredContent).not.toHaveProperty("more");
    const some = await list(agent, { limit: 3 });
    expect(some.structuredContent.sessions).toHaveLength(3);
    expect(some.structuredContent.more).toBe(true);
    const one = await list(agent, { project_id: projects[1] });
    expect(one.structuredContent.sessions).toMatchObject([
      { project_id: projects[1] },
      { project_id: projects[1] },
    ]);
  });

  it("leaves out what is unshared, of a removed device, and of a disabled project", async () => {
    const world = await newWorld();
    await world.device.sync(world.project_id, []);
    expect((await list(world.agent)).structuredContent.sessions).toEqual([]);
    await world.device.sync(world.project_id, world.sessions);
    await env.DB.prepare("UPDATE devices SET removed_at = 1 WHERE id = ?").bind(world.device_id).run();
    expect((await list(world.agent)).structuredContent.sessions).toEqual([]);
    await env.DB.prepare("UPDATE projects SET disabled_at = 1 WHERE id = ?").bind(world.project_id).run();
    expect((await list(world.agent)).structuredContent.projects).toEqual([]);
  });

  it("answers an agent without projects, and says whom to ask", async () => {
    const { account_id } = await newAccount();
    const { structuredContent, text } = await list(await addAgent(account_id, []));
    expect(structuredContent).toMatchObject({ projects: [], sessions: [] });
    expect(text).toContain("Ask the owner to connect you");
  });
});

describe("tickets and statuses say what to do next", () => {
  it("queued with the desktop online: about one pickup interval", async () => {
    const world = await newWorld();
    const { structuredContent: ticket, text } = await run(world.agent, world.session_id);
    expect(ticket).toMatchObject({
      status: "queued",
      cancel_requested: false,
      queue_position: 1,
      desktop: { online: true },
      check_after_seconds: LIMITS.pollSeconds,
    });
    expect(Date.parse(String(ticket.expires_at)) - Date.parse(String(ticket.queued_at))).toBe(86_400_000);
    expect(text).toContain("call get_graph_run");
    expect(text).toContain("do not call run_graph_session again");
    const second = await run(world.agent, world.session_id);
    expect(second.structuredContent.queue_position).toBe(2);
  });

  it("queued with the desktop away: a longer time, and the owner to be told", async () => {
    const world = await newWorld();
    const absent = await addDevice(world.account_id);
    await giveAccess(world.project_id, [world.agent], [world.device_id, absent]);
    await env.DB.prepare("UPDATE graph_sessions SET device_id = ? WHERE graph_session_id = ?")
      .bind(absent, world.session_id)
      .run();
    const { structuredContent: ticket, text } = await run(world.agent, world.session_id);
    expect(ticket).toMatchObject({ status: "queued", desktop: { online: false, last_seen_at: null } });
    expect(ticket.check_after_seconds).toBeGreaterThan(LIMITS.pollSeconds);
    expect(text).toContain("tell the owner");
  });

  it("running, waiting for approval, told to stop, ended: each its own words", async () => {
    const world = await newWorld();
    const id = idOf(await run(world.agent, world.session_id));
    const attempt_id = uuid();
    await world.device.start(id, attempt_id);
    const running = await get(world.agent, id);
    expect(running.structuredContent).toMatchObject({ status: "running", check_after_seconds: 1 });
    expect(running.text).toContain("waits on the server");

    const progress = { state: "awaiting_approval", message: "May I write report.md?", percent: 40 };
    await world.device.call(`/commands/${id}/control`, { attempt_id, progress });
    const asking = await get(world.agent, id, 30);
    expect(asking.structuredContent).toMatchObject({ progress });
    expect(asking.text).toContain("May I write report.md?");
    expect(asking.text).toContain("ask the owner");

    const stopping = await cancel(world.agent, id);
    expect(stopping.structuredContent).toMatchObject({ cancel: "cancelling", cancel_requested: true });
    await world.device.complete(id, attempt_id, { status: "cancelled", finished_before_stop: true });
    const ended = await get(world.agent, id);
    expect(ended.structuredContent).toMatchObject({ status: "cancelled", finished_before_stop: true });
    expect(ended.structuredContent).not.toHaveProperty("check_after_seconds");
    expect(ended.text).toContain("what it did is done");
  });

  it("failed: the error, and what a new run needs", async () => {
    const world = await newWorld();
    const id = idOf(await run(world.agent, world.session_id));
    const attempt_id = uuid();
    await world.device.start(id, attempt_id);
    await world.device.complete(id, attempt_id, { status: "failed", error: "No such folder: /x" });
    const { structuredContent, text } = await get(world.agent, id);
    expect(structuredContent).toMatchObject({ status: "failed", error: "No such folder: /x" });
    expect(text).toContain("Error: No such folder: /x");
    expect(text).toContain("new idempotency_key");
  });

  it("get_graph_run waits on the server and is woken by the end", async () => {
    const world = await newWorld();
    const id = idOf(await run(world.agent, world.session_id));
    const waiting = get(world.agent, id, 50);
    const attempt_id = uuid();
    await world.device.start(id, attempt_id);
    await world.device.complete(id, attempt_id, { result: "done" });
    expect((await waiting).structuredContent).toMatchObject({ status: "completed", result: "done" });
  });
});

describe("what an agent may not see", () => {
  const MALFORMED = ["", "x", "../../etc", "prj_000000000000", `${"a".repeat(5000)}`, "\u0000", "\ud800"];

  it("unknown, foreign, revoked and malformed runs are answered alike, byte for byte", async () => {
    const mine = await newWorld();
    const theirs = await newWorld();
    const other = await addAgent(mine.account_id, [mine.project_id]);
    await giveAccess(mine.project_id, [mine.agent, other], [mine.device_id]);
    const foreign = idOf(await run(theirs.agent, theirs.session_id));
    const others = idOf(await run(other, mine.session_id));
    const revoked = idOf(await run(mine.agent, mine.session_id));
    await giveAccess(mine.project_id, [other], [mine.device_id]);
    const unknown = `${revoked.slice(0, 15)}8${revoked.slice(16, 24)}000000000000`;
    const ids = [foreign, others, revoked, unknown, uuid(), mine.session_id, ...MALFORMED];

    for (const tool of ["get_graph_run", "cancel_graph_run"])
      for (const revision of REVISIONS) {
        const bodies = await Promise.all(
          ids.map(async (command_id) => {
            const params = { name: tool, arguments: { command_id } };
            const response = await fetchMcp(rpcRequest(revision, "tools/call", params, { auth: mine.agent }));
            const headers = JSON.stringify([...response.headers].sort());
            return `${response.status} ${headers} ${await response.text()}`;
          }),
        );
        expect(new Set(bodies).size, `${tool} ${revision}`).toBe(1);
        expect(bodies[0]).toContain("Graph run not found or access removed");
      }
    expect((await get(other, others)).structuredContent.status).toBe("queued");
    expect((await get(theirs.agent, foreign)).structuredContent.status).toBe("queued");
  });

  it("sessions: unknown, foreign, unshared, malformed are answered alike, and nothing is queued", async () => {
    const mine = await newWorld();
    const theirs = await newWorld();
    const unshared = session();
    await mine.device.sync(mine.project_id, [...mine.sessions, unshared]);
    await mine.device.sync(mine.project_id, mine.sessions);
    const ids = [theirs.session_id, unshared.graph_session_id, session().graph_session_id, ...MALFORMED];
    const answers = await Promise.all(ids.map((id) => run(mine.agent, id)));
    expect(new Set(answers.map((a) => JSON.stringify(a))).size).toBe(1);
    expect(answers[0]?.text).toBe("Graph session not found or access removed");
    expect((await theirs.device.sync(theirs.project_id, theirs.sessions)).commands).toEqual([]);
  });

  it("projects: unknown, foreign, disconnected, malformed are answered alike", async () => {
    const mine = await newWorld();
    const theirs = await newWorld();
    const gone = await addProject(mine.account_id);
    const ids = [theirs.project_id, gone, "prj_000000000000", ...MALFORMED];
    const answers = await Promise.all(
      ids.map((project_id) => callTool(mine.agent, "list_graph_sessions", { project_id })),
    );
    expect(new Set(answers.map((a) => JSON.stringify(a))).size).toBe(1);
    expect(answers[0]?.text).toBe("Project not found or access removed");
  });

  it("an agent that the project's object was not told of yet is asked to try again, and is known then", async () => {
    const world = await newWorld();
    const late = await addAgent(world.account_id, [world.project_id]);
    await env.DB.prepare("UPDATE projects SET access_version = 1000000 WHERE id = ?")
      .bind(world.project_id)
      .run();
    const key = uuid();
    const first = await run(late, world.session_id, {}, key);
    expect(first.structuredContent).toMatchObject({ error_code: "unavailable" });
    const again = await run(late, world.session_id, {}, key);
    expect(again.structuredContent).toMatchObject({ status: "queued" });
  });

  it("a run in a project that was connected after the token was given is reached", async () => {
    const world = await newWorld();
    const later = await addProject(world.account_id);
    await connect(world.agent.agent_id, later, 5000);
    await giveAccess(later, [world.agent], [world.device_id]);
    const shared = session();
    const device = new TestDevice(world.account_id, world.device_id, [later]);
    await device.sync(later, [shared]);
    const id = idOf(await run(world.agent, shared.graph_session_id));
    expect(world.agent.projects).not.toContain(later);
    expect((await get(world.agent, id)).structuredContent).toMatchObject({
      project_id: later,
      status: "queued",
    });
    expect((await cancel(world.agent, id)).structuredContent.cancel).toBe("cancelled");
  });
});

describe("input that does not fit", () => {
  const CASES: [string, string, unknown, string][] = [
    ["list_graph_sessions", "limit 0", { limit: 0 }, "limit"],
    ["list_graph_sessions", "limit 51", { limit: 51 }, "limit"],
    ["list_graph_sessions", "limit 1.5", { limit: 1.5 }, "limit"],
    ["list_graph_sessions", "an unknown field", { secret: "s3cret" }, "secret"],
    ["run_graph_session", "no key", { graph_session_id: "x" }, "idempotency_key"],
    [
      "run_graph_session",
      "a key of 7",
      { graph_session_id: "x", idempotency_key: "s3cret!" },
      "idempotency_key",
    ],
    [
      "run_graph_session",
      "a key of 129",
      { graph_session_id: "x", idempotency_key: "k".repeat(129) },
      "idempotency_key",
    ],
    [
      "run_graph_session",
      "an array as arguments",
      { graph_session_id: "x", idempotency_key: "12345678", arguments: ["s3cret"] },
      "arguments",
    ],
    [
      "run_graph_session",
      "a string as arguments",
      { graph_session_id: "x", idempotency_key: "12345678", arguments: "s3cret" },
      "arguments",
    ],
    [
      "run_graph_session",
      "null as arguments",
      { graph_session_id: "x", idempotency_key: "12345678", arguments: null },
      "arguments",
    ],
    ["get_graph_run", "wait_seconds 51", { command_id: "x", wait_seconds: 51 }, "wait_seconds"],
    ["get_graph_run", "wait_seconds -1", { command_id: "x", wait_seconds: -1 }, "wait_seconds"],
    ["get_graph_run", "no id", {}, "command_id"],
    ["cancel_graph_run", "an id that is a number", { command_id: 31337 }, "command_id"],
    ["cancel_graph_run", "input that is an array", ["s3cret"], "object"],
  ];

  it.each(CASES)(
    "%s with %s: names the field and the rule, not the content",
    async (name, _, input, field) => {
      const { agent } = await newWorld({ sessions: [] });
      for (const revision of REVISIONS) {
        const answer = await rpc(revision, "tools/call", { name, arguments: input }, { auth: agent });
        const early = revision === "2025-03-26" || revision === "2025-06-18";
        if (early) expect(answer.error?.code).toBe(-32602);
        else expect(answer.result?.isError).toBe(true);
        const text = early ? answer.error?.message : answer.result?.content?.[0]?.text;
        expect(text).toContain(field);
        expect(text).not.toContain("s3cret");
        expect(text).not.toContain("31337");
        if (!early)
          expect(answer.result?.structuredContent).toMatchObject({ error_code: "invalid_arguments" });
      }
    },
  );

  it.each(REVISIONS)(
    "%s: an unknown tool is -32602, by HTTP 200, and names those there are",
    async (revision) => {
      const { agent } = await newWorld({ sessions: [] });
      for (const name of ["rm_rf", "", 5, "__proto__", "constructor"]) {
        const response = await fetchMcp(
          rpcRequest(
            revision,
            "tools/call",
            { name },
            { auth: agent, headers: { "mcp-name": String(name) } },
          ),
        );
        const { error } = await response.json<RpcAnswer>();
        if (revision === "2026-07-28" && name === "") continue;
        expect([response.status, error?.code], JSON.stringify(name)).toEqual([200, -32602]);
      }
    },
  );

  it("arguments that do not fit the Graph's schema queue nothing, and the same key then takes others", async () => {
    const shared = session({ arguments_schema: { properties: { folder: { type: "string" } } } });
    const world = await newWorld({ sessions: [shared] });
    const key = uuid();
    const bad = await run(world.agent, shared.graph_session_id, { folder: 5 }, key);
    expect(bad.structuredContent).toMatchObject({ error_code: "invalid_arguments" });
    expect(bad.text).toContain("arguments/folder");
    expect((await world.device.sync(world.project_id, [shared])).commands).toEqual([]);
    const good = await run(world.agent, shared.graph_session_id, { folder: "." }, key);
    expect(good.structuredContent).toMatchObject({ status: "queued" });
  });

  it("a retry gets its ticket though the Graph's schema has changed since", async () => {
    const before = session({ arguments_schema: { properties: { folder: { type: "string" } } } });
    const world = await newWorld({ sessions: [before] });
    const key = uuid();
    const ask = (folder: unknown) => run(world.agent, before.graph_session_id, { folder }, key);
    const first = await ask(".");
    await world.device.sync(world.project_id, [
      { ...before, arguments_schema: { properties: { folder: { type: "array" } } } },
    ]);
    expect(idOf(await ask("."))).toBe(idOf(first));
    expect((await ask("..")).structuredContent).toMatchObject({
      error_code: "key_conflict",
      command_id: idOf(first),
    });
    const fresh = await run(world.agent, before.graph_session_id, { folder: "." });
    expect(fresh.structuredContent).toMatchObject({ error_code: "invalid_arguments" });
  });

  it("a retry gets its ticket though the session's device was removed since", async () => {
    const world = await newWorld();
    const key = uuid();
    const first = await run(world.agent, world.session_id, {}, key);
    await env.DB.prepare("UPDATE devices SET removed_at = 1 WHERE id = ?").bind(world.device_id).run();
    await giveAccess(world.project_id, [world.agent], []);
    const again = await run(world.agent, world.session_id, {}, key);
    expect(again.structuredContent).toMatchObject({ command_id: idOf(first), status: "cancelled" });
    expect((await run(world.agent, world.session_id)).structuredContent).toMatchObject({
      error_code: "session_not_found",
    });
  });

  it("a call that does not fit queues nothing and keeps no key", async () => {
    const world = await newWorld();
    const key = uuid();
    const bad = await callTool(world.agent, "run_graph_session", {
      graph_session_id: world.session_id,
      idempotency_key: key,
      arguments: { a: 1 },
      priority: "high",
    });
    expect(bad.isError).toBe(true);
    const good = await run(world.agent, world.session_id, { b: 2 }, key);
    expect(good.structuredContent.status).toBe("queued");
  });
});

describe("arguments arrive as they were sent, or not at all", () => {
  /** A run whose arguments are this JSON text; the answer, and what the laptop then gets. */
  async function send(argumentsJson: string) {
    const world = await newWorld();
    const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_graph_session","arguments":{"graph_session_id":"${world.session_id}","idempotency_key":"${uuid()}","arguments":${argumentsJson}}}}`;
    const response = await fetchMcp(
      new Request(MCP_URL, {
        method: "POST",
        headers: {
          "content-type": "application/json",
          "mcp-protocol-version": "2025-11-25",
          authorization: `Bearer ${token(world.agent)}`,
        },
        body,
      }),
    );
    const { commands } = await world.device.sync(world.project_id, world.sessions);
    return { status: response.status, text: await response.text(), commands };
  }

  it.each<[string, string]>([
    ["NUL", '{"a":"x\\u0000y"}'],
    ["a lone surrogate in a value", '{"a":"\\ud800"}'],
    ["a lone surrogate in a key", '{"\\udfff":1}'],
    ["__proto__", '{"__proto__":{"polluted":true}}'],
    ["a nested __proto__", '{"a":[{"__proto__":null,"b":1}]}'],
    ["constructor and prototype", '{"constructor":{"prototype":{"x":1}},"hasOwnProperty":1,"toString":2}'],
    ["toJSON", '{"toJSON":"x"}'],
    ["an empty key", '{"":""}'],
    ["numbers at the edges", '{"a":9007199254740991,"b":-1.5e-300,"c":1e308,"d":1152921504606847000}'],
    ["200 levels", `{"a":${"[".repeat(190)}${"]".repeat(190)}}`],
    ["emoji and Korean", '{"a":"😀한국어"}'],
  ])("%s", async (_, json) => {
    const { status, text, commands } = await send(json);
    expect(status, text).toBe(200);
    // The order of keys is not kept; all else is.
    const canonical = (value: unknown) => canonicalJson(value as Json);
    expect(canonical(commands[0]?.arguments)).toBe(canonical(JSON.parse(json)));
    expect(({} as Record<string, unknown>).polluted).toBeUndefined();
  });

  it.each<[string, string, string]>([
    ["10,000 levels", `{"a":${"[".repeat(10_000)}${"]".repeat(10_000)}}`, "deeper than 200"],
    ["1e400", '{"a":1e400}', "range of a double"],
    ["a whole number past 2^53", '{"a":12345678901234567890}', "lose digits"],
    ["100,001 characters", `{"a":"${"x".repeat(100_001 - 8)}"}`, "at most 100000 characters"],
  ])("%s gets a clear error", async (_, json, says) => {
    const { status, text, commands } = await send(json);
    expect(status).toBe(200);
    const { id, result } = JSON.parse(text) as RpcAnswer;
    expect(id).toBe(1);
    expect(result?.isError).toBe(true);
    expect(result?.content?.[0]?.text).toContain(says);
    expect(commands).toEqual([]);
  });

  it("exactly 100,000 characters pass", async () => {
    const { text } = await send(`{"a":"${"x".repeat(100_000 - 8)}"}`);
    expect(text).toContain('"status":"queued"');
  });

  it.each<[string, () => string]>([
    ["a 5 MB string", () => `{"a":"${"x".repeat(5_000_000)}"}`],
    ["a million keys", () => `{${Array.from({ length: 1_000_000 }, (_, i) => `"k${i}":0`).join(",")}}`],
  ])("%s is over what a body may hold: 413", async (_, json) => {
    const { status } = await send(json());
    expect(status).toBe(413);
  });

  it("as many keys as a body can hold get a clear error", async () => {
    const keys = Array.from({ length: 80_000 }, (_, i) => `"k${i}":0`).join(",");
    const { text } = await send(`{${keys}}`);
    expect(text).toContain("at most 100000 characters");
  });

  it.each([300, 200_000])("%d levels outside a tool's input are the request's fault", async (levels) => {
    const { agent } = await newWorld({ sessions: [] });
    const deep = `${"[".repeat(levels)}${"]".repeat(levels)}`;
    const post = async (message: string, auth?: AgentAuth) => {
      const headers = new Headers({ "content-type": "application/json" });
      if (auth) headers.set("authorization", `Bearer ${token(auth)}`);
      const response = await fetchMcp(new Request(MCP_URL, { method: "POST", headers, body: message }));
      return [response.status, (await response.json<RpcAnswer>()).id];
    };
    const ping = `{"jsonrpc":"2.0","id":5,"method":"ping","params":{"_meta":{"x":${deep}}}}`;
    expect(await post(ping, agent)).toEqual([400, 5]);
    expect(await post(ping)).toEqual([400, 5]);
    const call = `{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"get_graph_run","x":${deep}}}`;
    expect(await post(call, agent)).toEqual([200, 6]);
    expect(await post(call)).toEqual([401, 6]);
  });
});

describe("results arrive whole, or not at all", () => {
  const execution_id = uuid();
  /** A completion whose JSON is exactly `size` characters, its result a string of this text. */
  function completionOf(size: number, text: string) {
    const empty = JSON.stringify({ execution_id, status: "completed", result: "" }).length;
    const units = size - empty;
    const result = text.repeat(Math.floor(units / text.length)) + "x".repeat(units % text.length);
    return { execution_id, status: "completed" as const, result };
  }

  describe.each([
    ["ASCII", "a"],
    ["Korean", "한"],
    ["emoji", "😀"],
  ])("%s", (_, text) => {
    it("100,000 characters come through, complete to get, in fields and in text", async () => {
      const world = await newWorld();
      const id = idOf(await run(world.agent, world.session_id));
      const attempt_id = uuid();
      await world.device.start(id, attempt_id);
      const completion = completionOf(100_000, text);
      expect(boundCompletion(completion)).toEqual(completion);
      expect((await world.device.complete(id, attempt_id, completion)).status).toBe(200);
      const answer = await get(world.agent, id);
      expect(answer.structuredContent.result).toBe(completion.result);
      expect(answer.text).toContain(completion.result);
    });

    it("100,001 are refused whole, and go through without their result", async () => {
      const world = await newWorld();
      const id = idOf(await run(world.agent, world.session_id));
      const attempt_id = uuid();
      await world.device.start(id, attempt_id);
      const completion = completionOf(100_001, text);
      const refused = await world.device.complete(id, attempt_id, completion);
      expect([refused.status, (await refused.json<{ error: string }>()).error]).toEqual([
        413,
        "body_too_large",
      ]);
      const bounded = boundCompletion(completion);
      expect((await world.device.complete(id, attempt_id, bounded)).status).toBe(200);
      const answer = await get(world.agent, id);
      expect(answer.structuredContent).toMatchObject({ result_truncated: true, execution_id });
      expect(answer.structuredContent).not.toHaveProperty("result");
      expect(answer.text).toContain(execution_id);
    });
  });

  it.each<[string, string]>([
    ["NUL and lone surrogates", '{"a":"\\u0000\\ud800","\\udc00":1}'],
    ["__proto__", '{"__proto__":{"a":1},"constructor":2}'],
    ["null", "null"],
    ["false", "false"],
    ["numbers", "[0,-0.5,1e300,1152921504606847000]"],
    ["an array", "[[],{},[null]]"],
  ])("%s is the same value at the agent, in every revision", async (_, json) => {
    const world = await newWorld();
    const id = idOf(await run(world.agent, world.session_id));
    const attempt_id = uuid();
    await world.device.start(id, attempt_id);
    const body = `{"attempt_id":"${attempt_id}","execution_id":"${uuid()}","status":"completed","result":${json}}`;
    expect((await world.device.call(`/commands/${id}/complete`, body)).status).toBe(200);
    for (const revision of REVISIONS) {
      const params = { name: "get_graph_run", arguments: { command_id: id } };
      const response = await fetchMcp(rpcRequest(revision, "tools/call", params, { auth: world.agent }));
      expect(await response.text()).toContain(`"result":${JSON.stringify(JSON.parse(json))},"`);
    }
  });
});

describe("many at once", () => {
  it("50 agents with the same JSON-RPC id each get their own answer", async () => {
    const { account_id, device_id } = await newAccount();
    const project_id = await addProject(account_id);
    const agents = await Promise.all(Array.from({ length: 50 }, () => addAgent(account_id, [project_id])));
    await giveAccess(project_id, agents, [device_id]);
    const shared = session();
    await new TestDevice(account_id, device_id, [project_id]).sync(project_id, [shared]);
    const tickets = await Promise.all(
      agents.map((auth, i) =>
        rpc(
          "2025-11-25",
          "tools/call",
          {
            name: "run_graph_session",
            arguments: {
              graph_session_id: shared.graph_session_id,
              idempotency_key: "the-same-key",
              arguments: { i },
            },
          },
          { auth, id: 1 },
        ),
      ),
    );
    const ids = tickets.map((t) => String(t.result?.structuredContent?.command_id));
    expect(new Set(ids).size).toBe(50);
    const seen = await Promise.all(agents.map((auth, i) => get(auth, ids[i])));
    expect(seen.map((s) => s.structuredContent.command_id)).toEqual(ids);
    const crossed = await Promise.all(agents.map((auth, i) => get(auth, ids[(i + 1) % 50])));
    expect(crossed.every((c) => c.isError)).toBe(true);
  });

  it("a full queue says so, with the limit, and takes the same call once there is room", async () => {
    const world = await newWorld({ settings: { max_queued_per_agent: 1 } });
    const first = idOf(await run(world.agent, world.session_id));
    const key = uuid();
    const full = await run(world.agent, world.session_id, { a: 1 }, key);
    expect(full.structuredContent).toMatchObject({ error_code: "queue_full", scope: "agent", limit: 1 });
    expect(full.text).toContain("Nothing was queued");
    await cancel(world.agent, first);
    expect((await run(world.agent, world.session_id, { a: 1 }, key)).structuredContent.status).toBe("queued");
  });
});
