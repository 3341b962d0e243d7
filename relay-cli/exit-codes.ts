/** Every exit code of `graph-relay`, and what it means. Scripts and service managers may rely on them. */
export const EXIT_CODES = {
  done: [0, "Done. For `start`: told to stop, and what ran has finished."],
  failed: [1, "Failed, for a reason that the message tells."],
  usage: [2, "The command line is wrong, or names something that is not there."],
  not_paired: [3, "This machine is not paired, or `call` is not signed in and cannot ask. Use `login`."],
  already_running: [4, "Another relay runs on this state folder."],
  too_old: [5, "This graph-relay is too old for the server. Restarting does not help; install the newest."],
  device_removed: [6, "The device was removed from its account. Restarting does not help; pair it again."],
  unreachable: [7, "The server cannot be reached, or what answers is not a Graph Relay."],
  state_unusable: [8, "The state file or the configuration cannot be used. It was left as it is."],
  graph_failed: [9, "The Graph ran and failed."],
  graph_cancelled: [10, "The Graph was cancelled, expired in the queue, or was lost."],
  interrupted: [130, "Stopped by a second signal: what ran was cancelled."],
} as const satisfies Record<string, readonly [code: number, meaning: string]>;
export type ExitName = keyof typeof EXIT_CODES;

/** Ends a command with a message for its user and an exit code. */
export class CommandError extends Error {
  override readonly name = "CommandError";
  readonly exit: ExitName;
  constructor(exit: ExitName, message: string, cause?: unknown) {
    super(message, { cause });
    this.exit = exit;
  }
}
