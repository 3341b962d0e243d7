/** Every way in which the engine itself says no, as `error.code` in a Graph. The text says what to do. */
export const ENGINE_ERROR_CODES = [
  /** The arguments do not fit the Graph's schema. */
  "invalid_arguments",
  /** A tool's or agent's input is wrong. */
  "invalid_input",
  /** No tool, Graph, model or provider of that name. */
  "not_found",
  /** The owner set this tool to deny for this Graph. */
  "tool_denied",
  /** The owner said no, or did not answer in time. */
  "approval_refused",
  /** A path outside of the granted folders. */
  "path_not_granted",
  /** The token ceiling is reached: no further agents. */
  "token_ceiling",
  /** More than the engine allows: depth, calls at once, sizes. */
  "limit",
  /** `graph()` would call a Graph that is running above it. */
  "graph_cycle",
  /** A sub-Graph failed. */
  "graph_failed",
  /** A tool, a provider or a command failed; trying again may help. */
  "failed",
  /** A model's answer does not fit its schema. */
  "invalid_answer",
  /** The run was told to stop. */
  "stopped",
] as const;
export type EngineErrorCode = (typeof ENGINE_ERROR_CODES)[number];

/** An error that a Graph can catch and tell apart by `code`. */
export class EngineError extends Error {
  override readonly name = "EngineError";
  readonly code: EngineErrorCode;
  constructor(code: EngineErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
