/** The states of a command (design section 3). `cancel_requested_at` stands beside the state; it is none. */
export const COMMAND_STATES = [
  "queued",
  "running",
  "completed",
  "failed",
  "cancelled",
  "expired",
  "lost",
] as const;
export type CommandState = (typeof COMMAND_STATES)[number];

/** States that end a command. `lost` alone gives way to a result that arrives after all. */
const TERMINAL_STATES = ["completed", "failed", "cancelled", "expired", "lost"] as const;
export type TerminalState = (typeof TERMINAL_STATES)[number];

/** How a run ended, as the relay reports it. */
export const OUTCOME_STATES = ["completed", "failed", "cancelled"] as const;
export type OutcomeState = (typeof OUTCOME_STATES)[number];

/** What a cancel did. `already_finished` changes nothing and comes with the state. */
export const CANCEL_ANSWERS = ["cancelled", "cancelling", "already_finished"] as const;
export type CancelAnswer = (typeof CANCEL_ANSWERS)[number];

/** Whether nothing but a late result can still change the command. */
export const isTerminal = (state: CommandState): state is TerminalState =>
  (TERMINAL_STATES as readonly CommandState[]).includes(state);
