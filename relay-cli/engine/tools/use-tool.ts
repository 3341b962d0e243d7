import type { EngineEvent, Json } from "../contract.ts";
import { EngineError } from "../errors.ts";
import type { PreparedUse, Tool, ToolContext } from "./tool.ts";
import { approvalSetting } from "./tool-box.ts";

/** A run's hand on its tools: what they work with, where the events go, who asks the owner. */
export interface ToolSession {
  context: ToolContext;
  emit(event: EngineEvent): void;
  /** Puts a request to the owner; resolves to who allowed it, or throws `approval_refused`. */
  ask(tool: string, request: string): Promise<string>;
}

/**
 * The one way in which anything is done for a Graph or an agent: the owner's setting is looked up, the input
 * checked, the owner asked if need be, the use recorded, and only then is it done.
 */
export async function useTool(session: ToolSession, tool: Tool, given: Json): Promise<Json> {
  const { context } = session;
  const { name } = tool;
  const setting = approvalSetting(context.settings, tool);
  const record = (request: string, decision: "allowed" | "refused", by: string): void =>
    session.emit({ type: "tool_used", tool: name, request, decision, by });
  if (setting === "deny") {
    record(`${name} ${JSON.stringify(given)}`, "refused", "setting");
    throw new EngineError("tool_denied", `${name} is denied to this Graph by its owner.`);
  }
  const parsed = tool.input.safeParse(given);
  if (!parsed.success) {
    const faults = parsed.error.issues.map((i) => `${i.path.join(".") || "input"}: ${i.message}`);
    throw new EngineError("invalid_input", `${name}: ${faults.slice(0, 10).join("; ")}`);
  }
  let use: PreparedUse;
  try {
    use = await tool.prepare(parsed.data, context);
  } catch (error) {
    if (isRefusal(error, "path_not_granted")) record(error.message, "refused", "folders");
    throw error;
  }
  let by = "setting";
  if (setting === "ask") {
    try {
      by = await session.ask(name, use.request);
    } catch (error) {
      if (isRefusal(error, "approval_refused")) record(use.request, "refused", error.message);
      throw error;
    }
  }
  context.signal.throwIfAborted();
  record(use.request, "allowed", by);
  return use.run();
}

const isRefusal = (error: unknown, code: EngineError["code"]): error is EngineError =>
  error instanceof EngineError && error.code === code;
