import type { ApprovalSetting } from "../approvals.ts";
import type { EngineEvent, Json } from "../contract.ts";
import { EngineError } from "../errors.ts";
import { listFolderTool } from "./list-folder.ts";
import { readFileTool } from "./read-file.ts";
import type { PreparedUse, Tool, ToolContext } from "./tool.ts";

/** The tools that every Graph has. */
export const BUILT_IN_TOOLS: readonly Tool[] = [readFileTool, listFolderTool] as unknown as Tool[];

/** A run's hand on its tools: who asks, what the owner said so far, where the events go. */
export interface ToolSession {
  context: ToolContext;
  tools: ReadonlyMap<string, Tool>;
  emit(event: EngineEvent): void;
  /** Puts a request to the owner; resolves to who allowed it, or throws an EngineError. */
  ask(tool: string, request: string): Promise<string>;
}

/**
 * The one way in which anything is done for a Graph or an agent: the input is checked, the owner's setting looked
 * up, the owner asked if need be, the use recorded, and only then is it done.
 */
export async function useTool(session: ToolSession, name: string, given: Json): Promise<Json> {
  const { context, emit } = session;
  const tool = session.tools.get(name);
  if (tool === undefined)
    throw new EngineError(
      "not_found",
      `There is no tool ${name}. There are: ${[...session.tools.keys()].join(", ")}.`,
    );
  const setting: ApprovalSetting = context.settings.approvals[name] ?? tool.defaultApproval;
  if (setting === "deny") {
    emit({ type: "tool_used", tool: name, request: name, decision: "refused", by: "setting" });
    throw new EngineError("tool_denied", `${name} is denied to this Graph by its owner.`);
  }
  const parsed = tool.input.safeParse(given);
  if (!parsed.success) {
    const faults = parsed.error.issues.map((i) => `${i.path.join(".") || "input"}: ${i.message}`);
    throw new EngineError("invalid_input", `${name}: ${faults.slice(0, 10).join("; ")}`);
  }
  const use = await prepare(tool, parsed.data, session);
  const by = setting === "allow" ? "setting" : await session.ask(name, use.request);
  emit({ type: "tool_used", tool: name, request: use.request, decision: "allowed", by });
  context.signal.throwIfAborted();
  return use.run();
}

async function prepare(tool: Tool, input: unknown, { context, emit }: ToolSession): Promise<PreparedUse> {
  try {
    return await tool.prepare(input, context);
  } catch (error) {
    if (error instanceof EngineError && error.code === "path_not_granted")
      emit({
        type: "tool_used",
        tool: tool.name,
        request: error.message,
        decision: "refused",
        by: "folders",
      });
    throw error;
  }
}
