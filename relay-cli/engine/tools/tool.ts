import type * as z from "zod";
import type { ApprovalSetting } from "../approvals.ts";
import type { Json } from "../contract.ts";
import type { EnginePorts } from "../ports.ts";
import type { Guard } from "../process/guard.ts";
import type { GraphSettings } from "../settings.ts";

/** What a tool may use while it works. */
export interface ToolContext {
  ports: EnginePorts;
  guard: Guard;
  settings: GraphSettings;
  /** Given when the run ends or is told to stop. */
  signal: AbortSignal;
}

/** Something a Graph, or an agent of it, can have done outside of its process. */
export interface Tool<Input = unknown> {
  readonly name: string;
  /** For the model that may call it. */
  readonly description: string;
  readonly input: z.ZodType<Input>;
  /** The input as JSON Schema, where `input` does not say it. */
  readonly jsonSchema?: { [key: string]: Json };
  /** What holds where the owner set nothing: allow for reading, ask for what writes, runs or sends. */
  readonly defaultApproval: ApprovalSetting;
  /** Looks at what is asked for, without doing it. Throws an EngineError if it may never be. */
  prepare(input: Input, context: ToolContext): Promise<PreparedUse>;
}

/** One use of a tool, ready to be approved and then done: what runs is what was shown. */
export interface PreparedUse {
  /** Exactly what will be done, for the owner and for the history. */
  readonly request: string;
  run(): Promise<Json>;
}
