import { type CallToolResult, ProtocolError } from "@modelcontextprotocol/server";
import type * as z from "zod";
import { cutText } from "../../protocol/completion.ts";
import { TOOL_ERRORS } from "../../protocol/errors.ts";
import type { JsonFault, JsonObject } from "../../protocol/json.ts";
import { cancelInput, getInput, listInput, runInput, TOOLS, type ToolRow } from "../../protocol/tools.ts";
import { describeIssues } from "../issues.ts";
import { logFailure } from "../log.ts";
import { QueueUnavailable } from "../queues.ts";
import type { ToolContext } from "./context.ts";
import { CODES, faultText } from "./message.ts";
import { toolError } from "./results.ts";
import { cancelGraphRun, getGraphRun } from "./tools/get.ts";
import { listGraphSessions } from "./tools/list.ts";
import { runGraphSession } from "./tools/run.ts";

/** How the caller is to hear of input that does not fit. */
export interface CallOptions {
  /** Up to revision 2025-06-18 as a protocol error, later as a result that a model sees (SEP-1303). */
  inputErrors: "protocol" | "result";
  /** What the JSON of the request would not keep; such a call is not done. */
  fault?: JsonFault;
}

/** Input that does not fit: the field, the rule and the kind of the value. */
class InputFault {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

type Tool = (input: unknown, context: ToolContext) => Promise<CallToolResult | InputFault>;

/** A tool that sees only input that fits its schema. */
const checked =
  <T>(schema: z.ZodType<T>, run: (input: T, context: ToolContext) => Promise<CallToolResult>): Tool =>
  async (input, context) => {
    const parsed = schema.safeParse(input);
    return parsed.success ? run(parsed.data, context) : new InputFault(describeIssues(parsed.error, input));
  };

const RUN: Readonly<Record<ToolRow["name"], Tool>> = {
  list_graph_sessions: checked(listInput, listGraphSessions),
  run_graph_session: checked(runInput, runGraphSession),
  get_graph_run: checked(getInput, getGraphRun),
  cancel_graph_run: checked(cancelInput, cancelGraphRun),
};

/**
 * Calls a tool by the parameters of `tools/call`. Throws a `ProtocolError` for an unknown tool, for input
 * that does not fit where the revision wants that, and for a failure inside.
 */
export async function callTool(
  params: JsonObject,
  context: ToolContext,
  options: CallOptions,
): Promise<CallToolResult> {
  const { name, arguments: input = {} } = params;
  const row = TOOLS.find((tool) => tool.name === name);
  if (!row) throw new ProtocolError(CODES.invalidParams, unknownToolText(name));
  const fault = options.fault ? faultText(options.fault) : undefined;
  const result = fault === undefined ? await attempt(row, input, context) : new InputFault(fault);
  if (!(result instanceof InputFault)) return result;
  const text = `${TOOL_ERRORS.invalid_arguments} ${result.text}`;
  if (options.inputErrors === "protocol") throw new ProtocolError(CODES.invalidParams, text);
  return toolError("invalid_arguments", text);
}

function unknownToolText(name: unknown): string {
  const names = TOOLS.map((tool) => tool.name).join(", ");
  return typeof name === "string"
    ? `Unknown tool: ${cutText(name, 64)}. There are ${names}.`
    : "params.name must be the name of a tool.";
}

async function attempt(
  row: ToolRow,
  input: unknown,
  context: ToolContext,
): Promise<CallToolResult | InputFault> {
  try {
    return await RUN[row.name](input, context);
  } catch (error) {
    if (error instanceof QueueUnavailable) return toolError("unavailable");
    const correlation = crypto.randomUUID();
    logFailure(`${row.name} failed (${correlation}):`, error);
    throw new ProtocolError(CODES.internal, `${TOOL_ERRORS.internal} Reference: ${correlation}.`, {
      correlation_id: correlation,
    });
  }
}
