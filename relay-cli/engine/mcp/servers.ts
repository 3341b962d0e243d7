import { tmpdir } from "node:os";
import type { Client } from "@modelcontextprotocol/client";
import * as z from "zod";
import type { McpServerConfig } from "../config.ts";
import type { Json } from "../contract.ts";
import { cutText, describeThrown } from "../error-text.ts";
import { EngineError } from "../errors.ts";
import { ownValue } from "../own.ts";
import type { EnginePorts } from "../ports.ts";
import type { Guard } from "../process/guard.ts";
import { plainEnvironment } from "../tools/environment.ts";
import type { Tool } from "../tools/tool.ts";
import { GroupStdioTransport } from "./stdio-transport.ts";

const CONNECT_MILLISECONDS = 30_000;
const CALL_MILLISECONDS = 300_000;
const MAX_RESULT_CHARACTERS = 2_000_000;

/** Between a server's name and its tool's, as in `files__search`. */
export const MCP_SEPARATOR = "__";

/** The owner's MCP servers, each connected when one of its tools is first asked for, and for one run. */
export interface McpServers {
  /** The tools of a server, named `server__tool`; undefined if there is no server of that name. */
  tools(server: string): Promise<Tool[] | undefined>;
  close(): Promise<void>;
}

export function createMcpServers(
  ports: EnginePorts,
  guard: Guard,
  configs: Readonly<Record<string, McpServerConfig>>,
): McpServers {
  const connections = new Map<string, Promise<{ client: Client; tools: Tool[] }>>();
  return {
    async tools(server) {
      const config = ownValue(configs, server);
      if (config === undefined) return undefined;
      let connection = connections.get(server);
      if (connection === undefined) {
        connection = connect(ports, guard, server, config);
        connections.set(server, connection);
        // A server that did not come up may by the next time.
        connection.catch(() => connections.delete(server));
      }
      return (await connection).tools;
    },
    async close() {
      const open = [...connections.values()];
      connections.clear();
      await Promise.all(
        open.map((connection) => connection.then(({ client }) => client.close()).catch(() => {})),
      );
    },
  };
}

async function connect(ports: EnginePorts, guard: Guard, server: string, config: McpServerConfig) {
  const mcp = await import("@modelcontextprotocol/client");
  const client = new mcp.Client(
    { name: "graph-relay", version: "1.0.0" },
    { versionNegotiation: { mode: "auto", probe: { timeoutMs: 5_000 } } },
  );
  const transport =
    "url" in config
      ? new mcp.StreamableHTTPClientTransport(new URL(config.url), {
          fetch: ports.fetch,
          requestInit: { headers: fillIn(config.headers, ports.env, server) },
        })
      : new GroupStdioTransport(ports, guard, {
          command: config.command,
          args: config.args,
          env: { ...plainEnvironment(ports.env), ...fillIn(config.env, ports.env, server) },
          cwd: tmpdir(),
        });
  try {
    await client.connect(transport, { timeout: CONNECT_MILLISECONDS });
    const { tools } = await client.listTools(undefined, { timeout: CONNECT_MILLISECONDS });
    return { client, tools: tools.map((tool) => asTool(client, server, tool)) };
  } catch (error) {
    await client.close().catch(() => {});
    await transport.close().catch(() => {});
    throw new EngineError(
      "failed",
      `The MCP server ${server} could not be used: ${describeThrown(error).message}`,
    );
  }
}

function asTool(
  client: Client,
  server: string,
  { name, description, inputSchema }: { name: string; description?: string | undefined; inputSchema: object },
): Tool {
  const full = `${server}${MCP_SEPARATOR}${name}`;
  return {
    name: full,
    description: description ?? `${name} of ${server}`,
    // The server checks its own input; a schema here that copied it would lose keys such as __proto__.
    input: z.custom(isObject, "must be an object"),
    jsonSchema: inputSchema as { [key: string]: Json },
    // What a server says of its own tools is no ground to skip the question.
    defaultApproval: "ask",
    async prepare(input, { signal }) {
      const args = input as { [key: string]: Json };
      return {
        request: `${name} of the MCP server ${server}, with ${JSON.stringify(args)}`,
        async run() {
          const result = await client
            .callTool({ name, arguments: args }, { signal, timeout: CALL_MILLISECONDS })
            .catch((error: unknown) => {
              signal.throwIfAborted();
              throw new EngineError("failed", `${full}: ${describeThrown(error).message}`);
            });
          const text = result.content
            .map((part) => (part.type === "text" ? part.text : `(${part.type})`))
            .join("\n");
          if (result.isError === true) throw new EngineError("failed", `${full}: ${cutText(text, 4_000)}`);
          return {
            text: cutText(text, MAX_RESULT_CHARACTERS),
            ...(result.structuredContent === undefined
              ? {}
              : { structured: result.structuredContent as { [key: string]: Json } }),
          };
        },
      };
    },
  };
}

const isObject = (value: unknown): boolean =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Values with `${NAME}` replaced from the environment. One that is not set is an error that names it. */
function fillIn(
  values: Readonly<Record<string, string>>,
  env: EnginePorts["env"],
  server: string,
): Record<string, string> {
  const fill = (value: string): string =>
    value.replace(/\$\{([A-Za-z_][A-Za-z0-9_]*)\}/g, (_, name: string) => {
      const found = env[name];
      if (found === undefined)
        throw new EngineError(
          "not_found",
          `The MCP server ${server} needs the environment variable ${name}, which is not set.`,
        );
      return found;
    });
  return Object.fromEntries(Object.entries(values).map(([key, value]) => [key, fill(value)]));
}
