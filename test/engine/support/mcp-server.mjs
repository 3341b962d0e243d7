// An MCP server over standard input and output for the tests: a tool that adds, one that fails, one that tells its environment.
import { McpServer } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import * as z from "zod";

serveStdio(() => {
  const server = new McpServer({ name: "test", version: "1.0.0" }, { capabilities: { tools: {} } });
  server.registerTool(
    "add",
    { description: "Adds two numbers.", inputSchema: z.object({ a: z.number(), b: z.number() }) },
    async ({ a, b }) => ({
      content: [{ type: "text", text: String(a + b) }],
      structuredContent: { sum: a + b },
    }),
  );
  server.registerTool("fail", { description: "Fails.", inputSchema: z.object({}) }, async () => ({
    isError: true,
    content: [{ type: "text", text: "it is broken" }],
  }));
  server.registerTool(
    "environment",
    { description: "Its environment.", inputSchema: z.object({}) },
    async () => ({
      content: [{ type: "text", text: JSON.stringify(process.env) }],
    }),
  );
  return server;
});
