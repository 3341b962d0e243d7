/** The state file cannot be used: which one, what is wrong with it, and what to do. Nothing was changed. */
export class StateError extends Error {
  override readonly name = "StateError";
  readonly path: string;
  constructor(path: string, wrong: string, remedy: string, cause?: unknown) {
    super(`The state file ${path} ${wrong}. ${remedy}`, { cause });
    this.path = path;
  }
}

/** What is asked for does not go with what is stored. The message is for the owner. */
export class StoreConflict extends Error {
  override readonly name = "StoreConflict";
}

const RESTORE =
  "Nothing in it was changed. Put a backup in its place, or move it away and pair this machine again with `graph-relay login`.";

/** By SQLite's primary result code (sqlite.org/rescode.html): what is wrong, and what to do. */
const SQLITE_ERRORS: Readonly<Record<number, readonly [wrong: string, remedy: string]>> = {
  5: ["is in use by another process", "Try again in a moment."],
  8: ["cannot be written", "Give your user the right to write to it and to its folder."],
  10: ["cannot be read or written: the disk reported an error", "Check the disk, then try again."],
  11: ["is damaged", RESTORE],
  13: ["cannot be written: the disk is full", "Free some space; nothing that was stored is lost."],
  14: [
    "cannot be opened",
    "Check that its folder exists and that your user may write there, or name another with --state.",
  ],
  26: ["is not a state file of graph-relay", RESTORE],
};

/** SQLite's error in words an owner can act on; anything else as it is. */
export function explainSqlError(path: string, error: unknown): unknown {
  const code = (error as { errcode?: unknown }).errcode;
  if (typeof code !== "number") return error;
  const known = SQLITE_ERRORS[code & 0xff];
  return known ? new StateError(path, known[0], known[1], error) : error;
}
