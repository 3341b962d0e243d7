import type { CallToolResult } from "@modelcontextprotocol/server";
import { TOOL_ERRORS, type ToolErrorCode } from "../../protocol/errors.ts";

/** A tool's answer: the same facts as fields and as text, for clients that show only one of them. */
export function toolResult(fields: object, text: string): CallToolResult {
  return {
    content: [{ type: "text", text }],
    structuredContent: fields as Record<string, unknown>,
  };
}

/**
 * A tool's answer when its call cannot be done. `text` says what to do, and is the code's own sentence
 * unless more can be said; `more` are fields that a program can use.
 */
export function toolError(
  code: ToolErrorCode,
  text: string = TOOL_ERRORS[code],
  more: object = {},
): CallToolResult {
  return { ...toolResult({ error_code: code, error: text, ...more }, text), isError: true };
}

/** A time on the wire: ISO 8601 in UTC, from milliseconds since the epoch. */
export const isoTime = (ms: number): string => new Date(ms).toISOString();
