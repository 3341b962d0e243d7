import { beforeAll, describe, expect, it } from "vitest";
import { LIMITS } from "../../src/protocol/limits.ts";
import type { AgentAuth } from "../../src/worker/auth.ts";
import {
  fetchMcp,
  get,
  MCP_URL,
  newWorld,
  ORIGIN,
  REVISIONS,
  type RpcAnswer,
  rpc,
  rpcRequest,
  token,
} from "./support/endpoint.ts";

let agent: AgentAuth;
beforeAll(async () => {
  agent = (await newWorld()).agent;
});

/** A raw request: body as text, headers as given. */
const raw = (body: BodyInit | null, headers: Record<string, string> = {}, method = "POST") =>
  fetchMcp(
    new Request(MCP_URL, { method, headers: { "content-type": "application/json", ...headers }, body }),
  );
const signedIn = () => ({ authorization: `Bearer ${token(agent)}` });
const LIST = JSON.stringify({ jsonrpc: "2.0", id: 7, method: "tools/list" });

const VERSION = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES = "io.modelcontextprotocol/clientCapabilities";
const ENVELOPE = { [VERSION]: "2026-07-28", [CAPABILITIES]: {} };

describe("HTTP before any message", () => {
  it.each(["GET", "DELETE", "PUT", "HEAD"])("%s is answered 405 with Allow, at once", async (method) => {
    const response = await raw(null, { accept: "text/event-stream" }, method);
    expect(response.status).toBe(405);
    expect(response.headers.get("allow")).toBe("POST");
  });

  it.each(["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])(
    "a body of type %s is answered 415",
    async (type) => expect((await raw(LIST, { "content-type": type })).status).toBe(415),
  );

  it.each(["application/json; charset=utf-8", "application/octet-stream", ""])(
    "a JSON body of type '%s' is taken",
    async (type) => {
      const headers = new Headers(type === "" ? {} : { "content-type": type });
      const body = new TextEncoder().encode(LIST);
      const response = await fetchMcp(new Request(MCP_URL, { method: "POST", headers, body }));
      expect(response.status).toBe(200);
    },
  );

  it.each([undefined, "*/*", "application/json", "text/event-stream", "text/html"])(
    "Accept: %s gets the JSON answer",
    async (accept) => {
      const response = await raw(LIST, accept === undefined ? {} : { accept });
      expect(response.status).toBe(200);
      expect(response.headers.get("content-type")).toContain("application/json");
    },
  );

  it("a body over the limit is answered 413 by its Content-Length alone", async () => {
    let pulled = 0;
    const body = new ReadableStream({
      pull(controller) {
        pulled++;
        controller.enqueue(new Uint8Array(65_536));
      },
    });
    const headers = { "content-length": String(LIMITS.mcpBodyBytes + 1), "content-type": "application/json" };
    const response = await fetchMcp(new Request(MCP_URL, { method: "POST", headers, body }));
    expect(response.status).toBe(413);
    expect(pulled).toBeLessThan(5);
  });

  it("a body over the limit without a Content-Length is cut off, not read whole", async () => {
    let pulled = 0;
    const body = new ReadableStream({
      pull(controller) {
        pulled++;
        controller.enqueue(new Uint8Array(65_536));
      },
    });
    const headers = { "content-type": "application/json" };
    const response = await fetchMcp(new Request(MCP_URL, { method: "POST", headers, body }));
    expect(response.status).toBe(413);
    expect(pulled).toBeLessThan(LIMITS.mcpBodyBytes / 65_536 + 5);
  });

  it.each<[string, BodyInit, number, number]>([
    ["text that is no JSON", "{", 400, -32700],
    ["an empty body", "", 400, -32700],
    ["bytes that are no UTF-8", new Uint8Array([0x22, 0xff, 0x22]), 400, -32700],
    ["a JSON string", '"ping"', 400, -32600],
    ["null", "null", 400, -32600],
    ["no jsonrpc member", '{"id":1,"method":"ping"}', 400, -32600],
    ["jsonrpc 1.0", '{"jsonrpc":"1.0","id":1,"method":"ping"}', 400, -32600],
    ["an id of null", '{"jsonrpc":"2.0","id":null,"method":"ping"}', 400, -32600],
    ["an id that is an object", '{"jsonrpc":"2.0","id":{},"method":"ping"}', 400, -32600],
    ["a method that is a number", '{"jsonrpc":"2.0","id":1,"method":1}', 400, -32600],
    ["params that are an array", '{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', 400, -32600],
    ["an empty array", "[]", 400, -32600],
  ])("%s is answered with the right error", async (_, body, status, code) => {
    const response = await raw(body);
    expect(response.status).toBe(status);
    expect((await response.json<RpcAnswer>()).error?.code).toBe(code);
  });

  it("an error to a message with a usable id carries it", async () => {
    const answer = await (
      await raw('{"jsonrpc":"2.0","id":"x","method":"ping","params":[]}')
    ).json<RpcAnswer>();
    expect(answer.id).toBe("x");
  });
});

describe("Host, Origin and CORS", () => {
  it.each([
    "https://claude.ai",
    "https://claude.com",
    "https://chatgpt.com",
    "https://platform.openai.com",
    ORIGIN,
  ])("a page of %s may call and read the answer", async (origin) => {
    const response = await raw(LIST, { origin });
    expect(response.status).toBe(200);
    expect(response.headers.get("access-control-allow-origin")).toBe(origin);
    expect(response.headers.get("access-control-expose-headers")).toContain("WWW-Authenticate");
    expect(response.headers.get("vary")).toContain("Origin");
  });

  it.each(["https://evil.example", "null", "http://localhost:5173", `${ORIGIN}.evil.example`, "garbage"])(
    "a page of %s is answered 403, whatever it sends",
    async (origin) => {
      const response = await raw(LIST, { origin, ...signedIn() });
      expect(response.status).toBe(403);
      expect(response.headers.get("access-control-allow-origin")).toBeNull();
    },
  );

  it("in local development any loopback page may call, and no other host is ours", async () => {
    const at = (url: string, headers: Record<string, string> = {}) =>
      fetchMcp(
        new Request(url, {
          method: "POST",
          headers: { "content-type": "application/json", ...headers },
          body: LIST,
        }),
      );
    expect((await at("http://localhost:8787/mcp", { origin: "http://127.0.0.1:6274" })).status).toBe(200);
    expect((await at("http://localhost:8787/mcp", { origin: "https://evil.example" })).status).toBe(403);
    expect((await at("http://evil.example/mcp")).status).toBe(403);
    expect((await at("http://evil.example/mcp", { origin: "http://evil.example" })).status).toBe(403);
  });

  it("a preflight tells which headers may be sent", async () => {
    const response = await raw(null, { origin: "https://claude.ai" }, "OPTIONS");
    expect(response.status).toBe(204);
    for (const header of ["Authorization", "MCP-Protocol-Version", "Mcp-Method", "Mcp-Name", "Last-Event-ID"])
      expect(response.headers.get("access-control-allow-headers")).toContain(header);
  });

  it("the challenge can be read by a page", async () => {
    const request = rpcRequest("2025-11-25", "initialize", {}, { headers: { origin: "https://claude.ai" } });
    const response = await fetchMcp(request);
    expect(response.status).toBe(401);
    expect(response.headers.get("access-control-allow-origin")).toBe("https://claude.ai");
  });
});

describe("opening, revision by revision", () => {
  it.each(["2025-03-26", "2025-06-18", "2025-11-25"] as const)(
    "%s: initialize answers the version asked for, and nothing of 2026",
    async (revision) => {
      const params = { protocolVersion: revision, capabilities: {}, clientInfo: { name: "c", version: "1" } };
      const { result } = await rpc(revision, "initialize", params, { auth: agent });
      expect(result).toMatchObject({ protocolVersion: revision, capabilities: { tools: {} } });
      expect(result).not.toHaveProperty("resultType");
      expect(result).not.toHaveProperty("ttlMs");
    },
  );

  it.each(["2024-11-05", "2099-01-01", "x"])(
    "initialize that asks for %s is answered with the newest legacy revision, not with an error",
    async (protocolVersion) => {
      const params = { protocolVersion, capabilities: {}, clientInfo: { name: "c", version: "1" } };
      const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "initialize", params });
      const answer = await (await raw(body, signedIn())).json<RpcAnswer>();
      expect(answer.result?.protocolVersion).toBe("2025-11-25");
    },
  );

  it("initialize with an unknown legacy version header is negotiated, not refused", async () => {
    const params = {
      protocolVersion: "2024-11-05",
      capabilities: {},
      clientInfo: { name: "c", version: "1" },
    };
    const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "initialize", params });
    const response = await raw(body, { ...signedIn(), "mcp-protocol-version": "2024-11-05" });
    expect(response.status).toBe(200);
  });

  it("initialize under a 2026 header is a disagreement, in full 2026 form an unknown method", async () => {
    const params = {
      protocolVersion: "2025-11-25",
      capabilities: {},
      clientInfo: { name: "c", version: "1" },
    };
    const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "initialize", params });
    const bare = await raw(body, { ...signedIn(), "mcp-protocol-version": "2026-07-28" });
    expect([bare.status, (await bare.json<RpcAnswer>()).error?.code]).toEqual([400, -32020]);
    const full = await fetchMcp(rpcRequest("2026-07-28", "initialize", params, { auth: agent }));
    expect([full.status, (await full.json<RpcAnswer>()).error?.code]).toEqual([404, -32601]);
  });

  it("2026-07-28: server/discover answers what is served, with hints and the server's name", async () => {
    const { result } = await rpc("2026-07-28", "server/discover", {}, { auth: agent });
    expect(result).toMatchObject({
      supportedVersions: ["2026-07-28"],
      capabilities: { tools: {} },
      resultType: "complete",
      cacheScope: "public",
    });
    expect(result?.ttlMs).toBeGreaterThan(0);
    expect(result?._meta).toHaveProperty("io.modelcontextprotocol/serverInfo");
  });

  it("notifications and posted responses are answered 202 without a body", async () => {
    for (const body of [
      { jsonrpc: "2.0", method: "notifications/initialized" },
      { jsonrpc: "2.0", id: 1, result: {} },
      { jsonrpc: "2.0", id: 1, error: { code: 1, message: "x" } },
    ]) {
      const response = await raw(JSON.stringify(body), signedIn());
      expect([response.status, await response.text()]).toEqual([202, ""]);
    }
    const modern = {
      jsonrpc: "2.0",
      method: "notifications/cancelled",
      params: { requestId: 1, _meta: ENVELOPE },
    };
    expect((await raw(JSON.stringify(modern), signedIn())).status).toBe(202);
  });

  it("a session id or an event id that a client remembers is ignored", async () => {
    const response = await raw(LIST, { "mcp-session-id": "gone", "last-event-id": "9" });
    expect(response.status).toBe(200);
    expect(response.headers.get("mcp-session-id")).toBeNull();
  });

  it.each(["2025-03-26", "2025-06-18", "2025-11-25"] as const)("%s: ping answers", async (revision) => {
    expect((await rpc(revision, "ping")).result).toEqual({});
  });

  it.each(REVISIONS)("%s: an unknown method is -32601, and 404 only in 2026", async (revision) => {
    const response = await fetchMcp(rpcRequest(revision, "prompts/list", {}, { auth: agent }));
    expect(response.status).toBe(revision === "2026-07-28" ? 404 : 200);
    expect((await response.json<RpcAnswer>()).error?.code).toBe(-32601);
  });

  it.each(["tasks/get", "tasks/list", "logging/setLevel", "subscriptions/unlisten", "ping"])(
    "2026-07-28: %s is not there",
    async (method) => {
      const response = await fetchMcp(rpcRequest("2026-07-28", method, {}, { auth: agent }));
      expect([response.status, (await response.json<RpcAnswer>()).error?.code]).toEqual([404, -32601]);
    },
  );

  it("a legacy version header that is not served is answered 400", async () => {
    for (const version of ["2024-11-05", "1999-01-01"])
      expect((await raw(LIST, { "mcp-protocol-version": version })).status).toBe(400);
  });
});

describe("2026-07-28: what each request must say of itself", () => {
  const discover = (changes: { meta?: object | null; headers?: Record<string, string> }) => {
    const params = changes.meta === null ? {} : { _meta: changes.meta ?? ENVELOPE };
    const headers = {
      ...signedIn(),
      "mcp-protocol-version": "2026-07-28",
      "mcp-method": "server/discover",
      ...changes.headers,
    };
    const sent = Object.fromEntries(Object.entries(headers).filter(([, value]) => value !== ""));
    return raw(JSON.stringify({ jsonrpc: "2.0", id: "a", method: "server/discover", params }), sent);
  };

  it.each<[string, Parameters<typeof discover>[0], number]>([
    ["no _meta", { meta: null }, -32602],
    ["no capabilities in _meta", { meta: { [VERSION]: "2026-07-28" } }, -32602],
    ["no Mcp-Method", { headers: { "mcp-method": "" } }, -32020],
    ["another Mcp-Method", { headers: { "mcp-method": "tools/list" } }, -32020],
    ["Mcp-Method in capitals", { headers: { "mcp-method": "Server/Discover" } }, -32020],
    ["no MCP-Protocol-Version", { headers: { "mcp-protocol-version": "" } }, -32020],
    ["another MCP-Protocol-Version", { headers: { "mcp-protocol-version": "2027-01-01" } }, -32020],
    [
      "a version that is not served",
      { meta: { ...ENVELOPE, [VERSION]: "2027-01-01" }, headers: { "mcp-protocol-version": "2027-01-01" } },
      -32022,
    ],
  ])("%s is answered 400 with its own code and the request's id", async (_, changes, code) => {
    const response = await discover(changes);
    const answer = await response.json<RpcAnswer>();
    expect([response.status, answer.error?.code, answer.id]).toEqual([400, code, "a"]);
    if (code === -32022)
      expect(answer.error?.data).toEqual({ supported: ["2026-07-28"], requested: "2027-01-01" });
  });

  it("white space around a header's value is no difference, nor the case of its name", async () => {
    expect((await discover({ headers: { "mcp-method": " server/discover\t" } })).status).toBe(200);
  });

  it("Mcp-Name must be there and equal on a tool call; its Base64 form counts as the name", async () => {
    const call = (name: string | undefined) => {
      const headers: Record<string, string> = name === undefined ? {} : { "mcp-name": name };
      const params = {
        name: "get_graph_run",
        arguments: { command_id: "x", wait_seconds: 0 },
        _meta: ENVELOPE,
      };
      const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params });
      return raw(body, {
        ...signedIn(),
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        ...headers,
      });
    };
    expect((await (await call(undefined)).json<RpcAnswer>()).error?.code).toBe(-32020);
    expect((await (await call("cancel_graph_run")).json<RpcAnswer>()).error?.code).toBe(-32020);
    expect((await call("get_graph_run")).status).toBe(200);
    expect((await call(`=?base64?${btoa("get_graph_run")}?=`)).status).toBe(200);
  });

  it("an array is no request", async () => {
    const one = { jsonrpc: "2.0", id: 1, method: "server/discover", params: { _meta: ENVELOPE } };
    const response = await raw(JSON.stringify([one]), {
      ...signedIn(),
      "mcp-protocol-version": "2026-07-28",
    });
    expect([response.status, (await response.json<RpcAnswer>()).error?.code]).toEqual([400, -32600]);
  });

  it("every result says that it is complete, and none of an older revision does", async () => {
    const call = { name: "get_graph_run", arguments: { command_id: "x" } };
    for (const revision of REVISIONS) {
      const { result } = await rpc(revision, "tools/call", call, { auth: agent });
      expect(result?.resultType).toBe(revision === "2026-07-28" ? "complete" : undefined);
    }
  });
});

describe("2025-03-26: arrays of messages", () => {
  const batch = (messages: unknown, headers: Record<string, string> = signedIn()) =>
    raw(JSON.stringify(messages), headers);

  it("each request gets its answer, notifications and responses none", async () => {
    const response = await batch([
      { jsonrpc: "2.0", id: 1, method: "ping" },
      { jsonrpc: "2.0", method: "notifications/initialized" },
      { jsonrpc: "2.0", id: "b", method: "tools/list" },
      { jsonrpc: "2.0", id: 9, result: {} },
      { jsonrpc: "2.0", id: 3, method: "nothing" },
      {
        jsonrpc: "2.0",
        id: 4,
        method: "tools/call",
        params: { name: "get_graph_run", arguments: { command_id: "x" } },
      },
      { id: 5 },
    ]);
    const answers = await response.json<RpcAnswer[]>();
    expect(answers.map((a) => [a.id, a.error?.code ?? (a.result?.isError ? "isError" : "ok")])).toEqual([
      [1, "ok"],
      ["b", "ok"],
      [3, -32601],
      [4, "isError"],
      [5, -32600],
    ]);
  });

  it("one of notifications alone is answered 202", async () => {
    const response = await batch([{ jsonrpc: "2.0", method: "notifications/initialized" }]);
    expect([response.status, await response.text()]).toEqual([202, ""]);
  });

  it("initialize may not be in one", async () => {
    const [answer] = await (await batch([{ jsonrpc: "2.0", id: 1, method: "initialize", params: {} }])).json<
      RpcAnswer[]
    >();
    expect(answer?.error?.code).toBe(-32600);
  });

  it("an element of the 2026 form is refused like any other header disagreement", async () => {
    const one = { jsonrpc: "2.0", id: 1, method: "server/discover", params: { _meta: ENVELOPE } };
    const [answer] = await (await batch([one])).json<RpcAnswer[]>();
    expect(answer?.error).toBeDefined();
  });

  it("one of more than 20 is refused whole", async () => {
    const ping = { jsonrpc: "2.0", id: 1, method: "ping" };
    expect((await batch(Array(21).fill(ping))).status).toBe(400);
    expect((await batch(Array(20).fill(ping))).status).toBe(200);
  });

  it.each(["2025-06-18", "2025-11-25"])("under %s there are none", async (version) => {
    const response = await batch([{ jsonrpc: "2.0", id: 1, method: "ping" }], {
      ...signedIn(),
      "mcp-protocol-version": version,
    });
    expect([response.status, (await response.json<RpcAnswer>()).error?.code]).toEqual([400, -32600]);
  });

  it("without a token one may hold what is public, and nothing else", async () => {
    const ping = { jsonrpc: "2.0", id: 1, method: "ping" };
    const call = { jsonrpc: "2.0", id: 2, method: "tools/call", params: { name: "get_graph_run" } };
    expect((await batch([ping], {})).status).toBe(200);
    const response = await batch([ping, call], {});
    expect(response.status).toBe(401);
    expect((await response.json<RpcAnswer[]>()).map((a) => a.id)).toEqual([1, 2]);
  });
});

describe("the one door", () => {
  const METADATA = `${ORIGIN}/.well-known/oauth-protected-resource/mcp`;

  it.each(REVISIONS)("%s: tools/list answers anyone, the same for everyone", async (revision) => {
    const anonymous = await rpc(revision, "tools/list");
    const known = await rpc(revision, "tools/list", {}, { auth: agent });
    expect(anonymous.result?.tools).toHaveLength(4);
    expect(JSON.stringify(known)).toBe(JSON.stringify(anonymous));
  });

  it.each(REVISIONS.flatMap((r) => ["initialize", "server/discover", "nothing"].map((m) => [r, m] as const)))(
    "%s: %s without a token gets 401 and a challenge",
    async (revision, method) => {
      const response = await fetchMcp(rpcRequest(revision, method, {}, { id: "q" }));
      expect(response.status).toBe(401);
      const challenge = response.headers.get("www-authenticate") ?? "";
      expect(challenge).toMatch(/^Bearer /);
      expect(challenge).toContain(`resource_metadata="${METADATA}"`);
      expect(challenge).toContain('scope="osfoundry:read osfoundry:run"');
      expect(challenge).toContain('error="invalid_token", error_description="');
      expect((await response.json<RpcAnswer>()).id).toBe("q");
    },
  );

  it.each(REVISIONS)("%s: a tool call without a token says so where ChatGPT looks, too", async (revision) => {
    const request = rpcRequest(revision, "tools/call", { name: "get_graph_run", arguments: {} }, { id: 3 });
    const response = await fetchMcp(request);
    expect(response.status).toBe(401);
    const { id, result } = await response.json<RpcAnswer>();
    expect(id).toBe(3);
    expect(result).toMatchObject({ isError: true, content: [{ type: "text", text: "Sign-in required." }] });
    expect(result?.resultType).toBe(revision === "2026-07-28" ? "complete" : undefined);
    expect(result?._meta?.["mcp/www_authenticate"]).toEqual([response.headers.get("www-authenticate")]);
  });

  it("a notification without a token gets 401 and no body", async () => {
    const response = await raw(JSON.stringify({ jsonrpc: "2.0", method: "notifications/initialized" }));
    expect([response.status, await response.text()]).toEqual([401, ""]);
  });

  it.each(["tools/list", "ping", "tools/call"])(
    "a token that is not valid gets 401 on %s",
    async (method) => {
      const request = rpcRequest(
        "2025-11-25",
        method,
        { name: "get_graph_run" },
        {
          headers: { authorization: "Bearer %%%" },
        },
      );
      const response = await fetchMcp(request);
      expect(response.status).toBe(401);
      expect(response.headers.get("www-authenticate")).toContain("expired, revoked or not for this server");
    },
  );

  it.each(["run_graph_session", "cancel_graph_run"])(
    "%s with read alone gets 403, asking for both scopes",
    async (name) => {
      const auth = { ...agent, scopes: ["osfoundry:read"] };
      const response = await fetchMcp(
        rpcRequest("2025-11-25", "tools/call", { name, arguments: {} }, { auth }),
      );
      expect(response.status).toBe(403);
      const challenge = response.headers.get("www-authenticate") ?? "";
      expect(challenge).toContain('error="insufficient_scope"');
      expect(challenge).toContain('scope="osfoundry:read osfoundry:run"');
      expect(challenge).toContain(`resource_metadata="${METADATA}"`);
      const { result } = await response.json<RpcAnswer>();
      expect(result?._meta?.["mcp/www_authenticate"]).toEqual([challenge]);
    },
  );

  it("a token with no scope at all gets 403 on reading, asking for that", async () => {
    const request = rpcRequest(
      "2025-11-25",
      "tools/call",
      { name: "list_graph_sessions" },
      {
        auth: { ...agent, scopes: [] },
      },
    );
    const response = await fetchMcp(request);
    expect(response.status).toBe(403);
    expect(response.headers.get("www-authenticate")).toContain('scope="osfoundry:read"');
  });

  it("run includes read", async () => {
    const answer = await get({ ...agent, scopes: ["osfoundry:run"] }, "x");
    expect(answer.text).toBe("Graph run not found or access removed");
  });
});
