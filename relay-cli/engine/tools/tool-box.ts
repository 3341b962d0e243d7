import * as z from "zod";
import type { ApprovalSetting } from "../approvals.ts";
import type { Json } from "../contract.ts";
import { EngineError } from "../errors.ts";
import { MCP_SEPARATOR, type McpServers } from "../mcp/servers.ts";
import { ownValue } from "../own.ts";
import type { GraphSettings } from "../settings.ts";
import { fetchTool } from "./fetch.ts";
import { listFolderTool } from "./list-folder.ts";
import { readFileTool } from "./read-file.ts";
import { shellTool } from "./shell.ts";
import type { Tool } from "./tool.ts";
import { writeFileTool } from "./write-file.ts";

/** The tools that every Graph has. */
export const BUILT_IN_TOOLS = [
  readFileTool,
  listFolderTool,
  writeFileTool,
  shellTool,
  fetchTool,
] as unknown as readonly Tool[];

/** The tool of this name, of the engine or of an MCP server. Throws `not_found`, naming what there is. */
export async function findTool(mcp: McpServers, name: string): Promise<Tool> {
  const builtIn = BUILT_IN_TOOLS.find((tool) => tool.name === name);
  if (builtIn !== undefined) return builtIn;
  const server = serverOf(name);
  const found = (server === undefined ? undefined : await mcp.tools(server))?.find(
    (tool) => tool.name === name,
  );
  if (found !== undefined) return found;
  throw new EngineError(
    "not_found",
    `There is no tool ${JSON.stringify(name)}. There are: ${BUILT_IN_TOOLS.map((t) => t.name).join(", ")}, and server${MCP_SEPARATOR}tool for each configured MCP server.`,
  );
}

/** The tools of these names; `server__*` stands for all of a server. */
export async function findTools(mcp: McpServers, names: readonly string[]): Promise<Tool[]> {
  const found = await Promise.all(
    names.map(async (name) => {
      const server = serverOf(name);
      if (server === undefined || name !== `${server}${MCP_SEPARATOR}*`) return [await findTool(mcp, name)];
      const tools = await mcp.tools(server);
      if (tools === undefined)
        throw new EngineError("not_found", `There is no MCP server ${server} in the configuration.`);
      return tools;
    }),
  );
  return [...new Map(found.flat().map((tool) => [tool.name, tool])).values()];
}

/** What the owner set for a tool of a Graph: for the tool, for its whole server, or the tool's own default. */
export function approvalSetting(settings: GraphSettings, tool: Tool): ApprovalSetting {
  const server = serverOf(tool.name);
  return (
    ownValue(settings.approvals, tool.name) ??
    (server === undefined ? undefined : ownValue(settings.approvals, `${server}${MCP_SEPARATOR}*`)) ??
    tool.defaultApproval
  );
}

/** The tool's input as JSON Schema, for a model. */
export const inputSchema = (tool: Tool): { [key: string]: Json } =>
  tool.jsonSchema ?? (z.toJSONSchema(tool.input, { io: "input" }) as { [key: string]: Json });

function serverOf(name: string): string | undefined {
  const at = name.indexOf(MCP_SEPARATOR);
  return at <= 0 ? undefined : name.slice(0, at);
}
