import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { resolve } from "node:path";
import { Readable } from "node:stream";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { afterAll, afterEach, describe, expect, test, vi } from "vitest";
import * as z from "zod";
import { engineConfig } from "../../relay-cli/engine/index.ts";
import { startModelServer } from "./support/model-server.ts";
import { checkLeftovers, eventually, openWorkshop, processesWith } from "./support/workshop.ts";

// Each test starts processes; on a busy machine that alone takes seconds.
vi.setConfig({ testTimeout: 90_000 });

const SERVER = resolve(import.meta.dirname, "support/mcp-server.mjs");
/** How the configuration names an environment variable. */
const variable = (name: string): string => `\${${name}}`;
const model = await startModelServer();
const seen: (string | null)[] = [];
const handler = createMcpHandler(() => {
  const server = new McpServer({ name: "http", version: "1.0.0" }, { capabilities: { tools: {} } });
  server.registerTool(
    "shout",
    { description: "Shouts.", inputSchema: z.object({ text: z.string() }) },
    async ({ text }) => ({
      content: [{ type: "text", text: text.toUpperCase() }],
    }),
  );
  return server;
});
const http = createServer(async (req, res) => {
  seen.push(req.headers.authorization ?? null);
  const body = req.method === "POST" ? (Readable.toWeb(req) as ReadableStream) : undefined;
  const request = new Request(`http://127.0.0.1${req.url}`, {
    method: req.method ?? "GET",
    headers: Object.entries(req.headers).flatMap(([k, v]) =>
      typeof v === "string" ? [[k, v] as [string, string]] : [],
    ),
    ...(body === undefined ? {} : { body, duplex: "half" }),
  });
  const answer = await handler.fetch(request);
  res.writeHead(answer.status, Object.fromEntries(answer.headers));
  res.end(Buffer.from(await answer.arrayBuffer()));
});
http.listen(0, "127.0.0.1");
await once(http, "listening");

const config = engineConfig.parse({
  default_model: "local/small",
  providers: { local: { kind: "openai-compatible", base_url: model.url } },
  mcp_servers: {
    sums: { command: process.execPath, args: [SERVER], env: { GIVEN: variable("MCP_TOKEN") } },
    loud: {
      url: `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`,
      headers: { Authorization: `Bearer ${variable("MCP_TOKEN")}` },
    },
    broken: { command: process.execPath, args: ["-e", "process.exit(1)"] },
    needy: { command: "true", env: { X: variable("NOT_SET") } },
  },
});
const allowed = {
  approvals: { "sums__*": "allow", "loud__*": "allow", sums__fail: "allow", sums__environment: "deny" },
} as const;
const shop = openWorkshop(
  { uses: allowed, lists: allowed },
  {
    config: async () => config,
    env: { PATH: process.env.PATH, HOME: process.env.HOME, MCP_TOKEN: "t0ken", OTHER_SECRET: "s" },
  },
);
shop.graph(
  "uses",
  "try { return await api.tool(api.args.tool, api.args.input ?? {}); } catch (e) { return { code: e.code, message: e.message }; }",
);
const use = async (tool: string, input = {}) => (await shop.run("uses", { tool, input })).result;
checkLeftovers();
afterEach(async () => {
  model.reset();
  await eventually(() => processesWith(SERVER).length === 0, "no MCP server is left running");
});
afterAll(async () => {
  shop.close();
  await model.close();
  http.closeAllConnections();
  http.close();
});

describe("the owner's MCP servers", () => {
  test("over standard input and output: a tool is server__tool", async () => {
    expect(await use("sums__add", { a: 2, b: 3 })).toEqual({ text: "5", structured: { sum: 5 } });
  });

  test("over HTTP, with a header out of the environment", async () => {
    expect(await use("loud__shout", { text: "hi" })).toEqual({ text: "HI" });
    expect(new Set(seen)).toEqual(new Set(["Bearer t0ken"]));
  });

  test("a tool that fails, is not there, is denied or gets wrong input is an error with a code", async () => {
    expect(await use("sums__fail")).toEqual({ code: "failed", message: "sums__fail: it is broken" });
    expect(await use("sums__subtract")).toMatchObject({ code: "not_found" });
    expect(await use("sums__environment")).toMatchObject({ code: "tool_denied" });
    expect(await use("sums__add", { a: "2" })).toMatchObject({ code: "failed" });
    expect(await use("nobody__x")).toMatchObject({ code: "not_found" });
    expect(await use("broken__x")).toMatchObject({
      code: "failed",
      message: expect.stringMatching(/^The MCP server broken could not be used/),
    });
    expect(await use("needy__x")).toMatchObject({
      code: expect.any(String),
      message: expect.stringMatching(/environment variable NOT_SET, which is not set/),
    });
  });

  test("a server sees where things are, what it was given, and no other secret", async () => {
    const open = openWorkshop(
      { asks: { approvals: { sums__environment: "allow" } } },
      { config: async () => config, env: { PATH: process.env.PATH, MCP_TOKEN: "t0ken", OTHER_SECRET: "s" } },
    );
    open.graph("asks", "return JSON.parse((await api.tool('sums__environment')).text);");
    const { result } = await open.run("asks");
    expect(result).toMatchObject({ GIVEN: "t0ken" });
    expect(Object.keys(result as object)).not.toContain("OTHER_SECRET");
    expect(Object.keys(result as object)).not.toContain("MCP_TOKEN");
    open.close();
  });

  test("without a setting its owner is asked", async () => {
    const asked: string[] = [];
    const open = openWorkshop(
      {},
      {
        config: async () => config,
        env: { PATH: process.env.PATH, MCP_TOKEN: "x" },
        approvals: {
          ask: async ({ tool, request }) => {
            asked.push(`${tool}: ${request}`);
            return { answer: "refused", by: "owner" };
          },
        },
      },
    );
    open.graph("asks", "try { await api.tool('sums__add', { a: 1, b: 1 }); } catch (e) { return e.code; }");
    expect((await open.run("asks")).result).toBe("approval_refused");
    expect(asked).toEqual(['sums__add: add of the MCP server sums, with {"a":1,"b":1}']);
    open.close();
  });

  test("an agent gets all tools of a server by server__*, but for those denied", async () => {
    model.answer = (request) =>
      request.messages.some((m) => m.role === "tool")
        ? { text: String(request.messages.at(-1)?.content) }
        : { calls: [{ name: "sums__add", input: { a: 20, b: 22 } }] };
    shop.graph("lists", "return (await api.agent('Add.', { tools: ['sums__*', 'loud__shout'] })).text;");
    const { result, logs } = await shop.run("lists");
    expect(String(result)).toContain("42");
    expect(model.requests[0]?.body.tools?.map((t) => t.function.name)).toEqual([
      "sums__add",
      "sums__fail",
      "loud__shout",
    ]);
    expect(logs).toEqual(["sums__environment is denied to this Graph, so its agents are not offered it."]);
  });
});
