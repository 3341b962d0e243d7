import { afterAll, afterEach, describe, expect, test, vi } from "vitest";
import { engineConfig } from "../../relay-cli/engine/index.ts";
import { startModelServer } from "./support/model-server.ts";
import { checkLeftovers, openWorkshop } from "./support/workshop.ts";

// Each test starts processes; on a busy machine that alone takes seconds.
vi.setConfig({ testTimeout: 90_000 });

const server = await startModelServer();
const config = engineConfig.parse({
  default_model: "local/small",
  providers: {
    local: {
      kind: "openai-compatible",
      base_url: server.url,
      api_key_env: "LOCAL_KEY",
      prices: { small: { input_per_million: 1, output_per_million: 10 } },
    },
    plain: { kind: "openai-compatible", base_url: server.url, structured_outputs: false },
    keyless: { kind: "openai-compatible", base_url: server.url, api_key_env: "NO_SUCH_KEY" },
    gone: { kind: "openai-compatible", base_url: "http://127.0.0.1:9/v1" },
    anthropic: { kind: "anthropic", base_url: server.url, api_key_env: "LOCAL_KEY" },
  },
});
const KEY = "sk-secret-0123456789";
const shop = openWorkshop({}, { config: async () => config, env: { ...process.env, LOCAL_KEY: KEY } });
checkLeftovers();
afterEach(() => server.reset());
afterAll(async () => {
  shop.close();
  await server.close();
});

describe("agent()", () => {
  test("gives the text, what it used, and which model said it; the run reports tokens and cost", async () => {
    server.answer = () => ({ text: "Four.", usage: { prompt_tokens: 1000, completion_tokens: 500 } });
    shop.graph("asks", "return api.agent('2 + 2?', { system: 'Be brief.', maxTokens: 77 });");
    const { outcome, result, events } = await shop.run("asks");
    expect(result).toEqual({
      text: "Four.",
      toolCalls: [],
      model: "local/small",
      usage: { inputTokens: 1000, outputTokens: 500, totalTokens: 1500 },
    });
    expect(outcome).toMatchObject({ status: "completed", total_tokens: 1500, reported_cost: 0.006 });
    expect(server.requests[0]?.body).toMatchObject({
      model: "small",
      max_tokens: 77,
      messages: [
        { role: "system", content: "Be brief." },
        { role: "user", content: "2 + 2?" },
      ],
    });
    expect(events.filter((e) => e.type.startsWith("agent_"))).toMatchObject([
      { type: "agent_started", agent: 1, model: "local/small", prompt: "2 + 2?", system: "Be brief." },
      { type: "agent_finished", agent: 1, answer: "Four.", input_tokens: 1000, output_tokens: 500 },
    ]);
  });

  test("the key goes to the provider, and neither into the Graph's process nor into any event", async () => {
    shop.graph(
      "looks-for-keys",
      "const before = process.env; await api.agent('hello'); return { env: Object.keys(before), argv: process.argv, all: JSON.stringify(before) };",
    );
    const { result, events } = await shop.run("looks-for-keys");
    expect(server.requests[0]?.headers.authorization).toBe(`Bearer ${KEY}`);
    expect(
      (result as { env: string[] }).env.filter((name) => !/^(LANG|LC_|TZ|GRAPH_RELAY_GROUP)/.test(name)),
    ).toEqual([]);
    expect(JSON.stringify([result, events])).not.toContain(KEY);
  });

  test("answers by JSON Schema: the schema is sent, the answer parsed and checked", async () => {
    server.answer = () => ({ text: '{"score": 7, "why": "clear"}' });
    shop.graph(
      "scores",
      `const schema = { type: "object", properties: { score: { type: "integer", maximum: 10 }, why: { type: "string" } }, required: ["score", "why"], additionalProperties: false };
       const { object } = await api.agent("Score it.", { schema }); return object;`,
    );
    expect((await shop.run("scores")).result).toEqual({ score: 7, why: "clear" });
    expect(server.requests[0]?.body.response_format).toMatchObject({
      type: "json_schema",
      json_schema: { schema: { required: ["score", "why"] } },
    });
    server.answer = () => ({ text: '{"score": 70}' });
    expect((await shop.run("scores")).outcome.error).toMatch(
      /^The answer of local\/small does not fit the schema: .*why.*; score: 70 is greater than 10/,
    );
    server.answer = () => ({ text: "I would rather not." });
    expect((await shop.run("scores")).outcome.error).toMatch(/holds no JSON/);
  });

  test("answers by a Standard Schema, with its transforms", async () => {
    server.answer = () => ({ text: '```json\n{"when": "2026-01-01"}\n```' });
    shop.graph(
      "transforms",
      `const schema = { "~standard": { version: 1, vendor: "test",
         validate: (v) => typeof v?.when === "string" ? { value: { year: new Date(v.when).getUTCFullYear() } } : { issues: [{ message: "no date", path: ["when"] }] },
         jsonSchema: { input: () => ({ $schema: "https://json-schema.org/draft/2020-12/schema", type: "object" }), output: () => ({}) } } };
       return (await api.agent("When?", { schema })).object;`,
    );
    expect((await shop.run("transforms")).result).toEqual({ year: 2026 });
    server.answer = () => ({ text: "{}" });
    expect((await shop.run("transforms")).outcome.error).toMatch(
      /does not fit the schema: when: no date \(at transforms/,
    );
  });

  test("a server that takes no schema gets it in the prompt", async () => {
    server.answer = () => ({ text: 'Sure: {"a": [1, 2]} Done.' });
    shop.graph(
      "in-prompt",
      "return (await api.agent('x', { model: 'plain/small', schema: { type: 'object' } })).object;",
    );
    expect((await shop.run("in-prompt")).result).toEqual({ a: [1, 2] });
    expect(server.requests[0]?.body.messages[0]).toMatchObject({
      role: "system",
      content: expect.stringContaining("fits this JSON Schema"),
    });
  });

  test("does the tool calls of the model, and stops at maxSteps", async () => {
    const files = openWorkshop(
      { reads: { folders: [{ path: shop.folder, write: false }] } },
      { config: async () => config, env: { LOCAL_KEY: KEY } },
    );
    files.graph("reads", "return api.agent('Read it.', { tools: ['read_file'], maxSteps: api.args.steps });");
    shop.graph("note", "the secret word is heron // export default");
    server.answer = (request) =>
      request.messages.some((m) => m.role === "tool")
        ? { text: `I read: ${JSON.stringify(request.messages.at(-1)?.content)}` }
        : { calls: [{ name: "read_file", input: { path: "note.mjs" } }] };
    const { result, outcome, events } = await files.run("reads", { steps: 5 });
    expect(result).toMatchObject({
      text: expect.stringContaining("heron"),
      toolCalls: [{ tool: "read_file", input: { path: "note.mjs" } }],
      usage: { totalTokens: 200 },
    });
    expect(outcome.total_tokens).toBe(200);
    expect(events).toContainEqual(
      expect.objectContaining({ type: "tool_used", tool: "read_file", decision: "allowed", by: "setting" }),
    );
    server.requests.length = 0;
    server.answer = () => ({ calls: [{ name: "read_file", input: { path: "note.mjs" } }] });
    expect((await files.run("reads", { steps: 3 })).outcome.status).toBe("completed");
    expect(server.requests).toHaveLength(3);
    files.close();
  });

  test("where the provider tells no usage, tokens are estimated at four characters each", async () => {
    server.answer = () => ({ text: "x".repeat(400), usage: null });
    shop.graph("untold", "return (await api.agent('y'.repeat(40))).usage;");
    expect((await shop.run("untold")).result).toEqual({
      inputTokens: 10,
      outputTokens: 100,
      totalTokens: 110,
    });
  });

  test.each([
    [
      "an unknown provider",
      "{ model: 'nobody/x' }",
      /There is no provider "nobody"\. There are: local, plain,/,
    ],
    ["an inherited name", "{ model: 'constructor/x' }", /There is no provider "constructor"/],
    ["an unknown option", "{ modle: 'x' }", /agent: .*modle/],
    [
      "an unknown tool",
      "{ tools: ['fly'] }",
      /There is no tool "fly"\. There are: read_file, list_folder, write_file, shell, fetch/,
    ],
    ["too many steps", "{ maxSteps: 1000 }", /agent: maxSteps/],
    ["a key that is not set", "{ model: 'keyless/x' }", /put it into the environment variable NO_SUCH_KEY/],
    ["a schema that is none", "{ schema: 3 }", /must be a JSON Schema object or a Standard Schema/],
  ])("%s is refused before anything is sent", async (name, options, error) => {
    const slug = name.replaceAll(" ", "-");
    shop.graph(slug, `return api.agent("x", ${options});`);
    const { outcome } = await shop.run(slug);
    expect(outcome).toMatchObject({
      status: "failed",
      error: expect.stringMatching(error),
      total_tokens: null,
    });
    expect(server.requests).toEqual([]);
  });

  test("what the provider says against a request reaches the Graph in words, with the key blacked out", async () => {
    server.answer = () => ({ status: 400, body: { error: { message: `bad key ${KEY}` } } });
    shop.graph(
      "refused",
      "try { await api.agent('x'); } catch (e) { return { code: e.code, message: e.message }; }",
    );
    const { result, events } = await shop.run("refused");
    expect(result).toEqual({
      code: "failed",
      message: `local/small at ${new URL(server.url).origin}: bad key ••• (HTTP 400)`,
    });
    expect(events).toContainEqual(
      expect.objectContaining({ type: "agent_finished", error: expect.stringMatching(/bad key •••/) }),
    );
  });

  test("a server that is not there is named", async () => {
    shop.graph("nowhere", "return api.agent('x', { model: 'gone/x' });");
    expect((await shop.run("nowhere")).outcome.error).toMatch(
      /^gone\/x.*(Cannot connect|fetch failed|bad port)/,
    );
  });

  test("a stopped run stops its agents", async () => {
    server.answer = () => ({ text: "too late", afterMilliseconds: 60_000 });
    shop.graph("slow", "return api.agent('x');");
    let run_id = "";
    const began = performance.now();
    const { outcome, events } = await shop.run(
      "slow",
      {},
      {
        onEvent(event) {
          if (event.type === "fleet_started") ({ run_id } = event);
          if (event.type === "agent_started") setImmediate(() => shop.engine.fleetCancelRun(run_id));
        },
      },
    );
    expect(outcome.status).toBe("cancelled");
    expect(performance.now() - began).toBeLessThan(30_000);
    expect(events).toContainEqual(
      expect.objectContaining({ type: "agent_finished", error: expect.stringMatching(/stop/) }),
    );
  });

  test("runs on Anthropic's own interface", async () => {
    const calls: { url: string; headers: Headers; body: string }[] = [];
    const anthropic = openWorkshop(
      {},
      {
        config: async () => config,
        env: { LOCAL_KEY: KEY },
        fetch: async (url, options) => {
          calls.push({
            url: String(url),
            headers: new Headers(options?.headers),
            body: String(options?.body),
          });
          return Response.json({
            id: "m",
            type: "message",
            role: "assistant",
            model: "claude-x",
            stop_reason: "end_turn",
            stop_sequence: null,
            content: [{ type: "text", text: "Bonjour." }],
            usage: { input_tokens: 12, output_tokens: 5 },
          });
        },
      },
    );
    anthropic.graph("greets", "return api.agent('Greet.', { model: 'anthropic/claude-x' });");
    const { result, outcome } = await anthropic.run("greets");
    expect(result).toMatchObject({ text: "Bonjour.", usage: { totalTokens: 17 } });
    expect(outcome.reported_cost).toBeNull();
    expect(calls[0]?.url).toBe(`${server.url}/messages`);
    expect(calls[0]?.headers.get("x-api-key")).toBe(KEY);
    anthropic.close();
  });
});

describe("models that need no configuration", () => {
  const discover = async (up: Record<string, string[]>, options = "{}") => {
    const seen: string[] = [];
    const found = openWorkshop(
      {},
      {
        env: {},
        fetch: async (url, init) => {
          const { origin, pathname } = new URL(String(url));
          seen.push(`${origin}${pathname}`);
          const models = up[origin];
          if (models === undefined) throw new TypeError("fetch failed");
          if (pathname === "/v1/models") return Response.json({ data: models.map((id) => ({ id })) });
          const { model } = JSON.parse(String(init?.body)) as { model: string };
          return Response.json({
            id: "x",
            created: 0,
            model,
            choices: [{ index: 0, message: { role: "assistant", content: "hi" }, finish_reason: "stop" }],
            usage: { prompt_tokens: 1, completion_tokens: 1 },
          });
        },
      },
    );
    found.graph("asks", `return (await api.agent("x", ${options})).model;`);
    const run = await found.run("asks");
    found.close();
    return { ...run, seen };
  };
  const OLLAMA = "http://127.0.0.1:11434";
  const LMSTUDIO = "http://127.0.0.1:1234";

  test("Ollama on its usual port is found, its embedding models passed over", async () => {
    expect((await discover({ [OLLAMA]: ["nomic-embed-text", "qwen3:8b"] })).result).toBe("ollama/qwen3:8b");
  });
  test("LM Studio is found where there is no Ollama", async () => {
    expect((await discover({ [LMSTUDIO]: ["llama"] })).result).toBe("lmstudio/llama");
  });
  test("a model of either can be named", async () => {
    const { result, seen } = await discover({ [LMSTUDIO]: ["llama"] }, '{ model: "lmstudio/phi-4" }');
    expect(result).toBe("lmstudio/phi-4");
    expect(seen).toEqual([`${LMSTUDIO}/v1/chat/completions`]);
  });
  test("with neither, the error says what to do", async () => {
    expect((await discover({})).outcome.error).toMatch(
      /neither Ollama nor LM Studio answers on this machine\. Start one/,
    );
  });
});
