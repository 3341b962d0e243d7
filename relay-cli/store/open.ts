import { chmodSync, closeSync, mkdirSync, openSync, statSync } from "node:fs";
import { join } from "node:path";
import type { Store } from "./contract.ts";
import { StateError } from "./errors.ts";
import { createStore } from "./index.ts";
import { migrate, SCHEMA_VERSION, versionOf } from "./migrate.ts";
import { nodeSql } from "./node-sql.ts";
import type { Sql } from "./sql.ts";

export interface OpenedStore {
  store: Store;
  /** For the tables that other parts of the program keep in the same file. */
  sql: Sql;
  path: string;
  /** What the owner should know of how it was found. */
  notes: string[];
}

/**
 * Opens the state file of a folder, makes it if there is none, and brings it to the newest version. The
 * folder is for its owner alone (0700), and so is the file (0600). Throws `StateError` and leaves the file
 * as it is if it is broken, not ours, or newer than this program.
 */
export function openStore(folder: string): OpenedStore {
  const path = join(folder, "state.db");
  const notes: string[] = [];
  const found = statSync(path, { throwIfNoEntry: false });
  if (found?.size === 0 && !statSync(`${path}-wal`, { throwIfNoEntry: false }))
    notes.push(
      `The state file ${path} was empty (0 bytes), as after a power cut, and is begun anew. If you have a backup, stop and put it in its place.`,
    );
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    closeSync(openSync(path, "a", 0o600));
    chmodSync(path, 0o600);
  } catch (error) {
    throw cannotOpen(path, error);
  }
  const sql = nodeSql(path);
  try {
    if (versionOf(sql, path) > SCHEMA_VERSION)
      throw new StateError(
        path,
        "was written by a newer graph-relay",
        "Install the newest graph-relay; nothing in the file was changed.",
      );
    migrate(sql);
    const store = createStore(sql);
    if (isCopy(sql, String(statSync(path, { bigint: true }).ino))) {
      const forgotten = store.attempts.disown();
      if (forgotten > 0)
        notes.push(
          `The state file ${path} is a copy. ${forgotten} run(s) that the original had under way are left to it.`,
        );
    }
    return { store, sql, path, notes };
  } catch (error) {
    sql.close();
    throw error;
  }
}

/**
 * Whether the file is another one than when it was last opened: a copy or a restored backup. Its journal
 * may then tell of runs that the original is in the middle of.
 */
function isCopy(sql: Sql, inode: string): boolean {
  const known = sql.get<{ value: string }>("SELECT value FROM meta WHERE key = 'inode'")?.value;
  if (known === inode) return false;
  sql.run("INSERT OR REPLACE INTO meta (key, value) VALUES ('inode', ?)", inode);
  return known !== undefined;
}

function cannotOpen(path: string, error: unknown): StateError {
  const code = (error as NodeJS.ErrnoException).code;
  return new StateError(
    path,
    `cannot be opened (${code ?? String(error)})`,
    "Check that your user may write to that folder, or name another with --state.",
    error,
  );
}
