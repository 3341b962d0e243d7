import type { Tool } from "@modelcontextprotocol/server";
import type { JsonObject } from "../../protocol/json.ts";
import { jsonSchemaOf, TOOLS, type ToolRow } from "../../protocol/tools.ts";

/** The fields of an answer that is an error, beside the tool's own. */
const ERROR_FIELDS = {
  error_code: {
    type: "string",
    description: "Why the call could not be done. Absent when it was.",
  },
  error: { type: "string", description: "What went wrong, and what to do." },
};

/**
 * The output schema fits an error's fields too: clients check `structuredContent` against it whether or
 * not `isError` is set. It is open (`io: "input"`), so that an answer may gain fields while a client
 * still holds an older list.
 */
function outputSchema(row: ToolRow): Tool["outputSchema"] {
  const { required = [], properties = {}, ...rest } = jsonSchemaOf(row.output, "input");
  return {
    ...rest,
    type: "object",
    properties: { ...ERROR_FIELDS, ...(properties as JsonObject) },
    anyOf: [{ required }, { required: ["error_code", "error"] }],
  };
}

function describe(row: ToolRow): Tool {
  const securitySchemes = [{ type: "oauth2", scopes: [row.scope] }];
  return {
    name: row.name,
    title: row.title,
    description: row.description,
    inputSchema: { ...jsonSchemaOf(row.input, "input"), type: "object" } as Tool["inputSchema"],
    outputSchema: outputSchema(row),
    annotations: { title: row.title, ...row.annotations },
    // OpenAI's, not MCP's: at the top level, and in `_meta` for clients that drop what they do not know.
    securitySchemes,
    _meta: { securitySchemes },
  } as Tool;
}

/** The answer to `tools/list`: the same for everyone. */
export const LISTED_TOOLS: readonly Tool[] = TOOLS.map(describe);
