import { closeSync, existsSync, mkdirSync, openSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { explainSqlError } from "./errors.ts";

/** How long a start waits for a look by `status`, or for a relay that is just ending. */
const WAIT_MS = 1_000;
const SQLITE_BUSY = 5;

/** Keeps the lock's file open even if its owner lets go of the lock without releasing it. */
const held = new Set<DatabaseSync>();

/**
 * Takes the folder for this process. The lock is the operating system's, on an open file: it ends with the
 * process, however that ends, and says nothing about process ids, which are used again.
 */
export function lockFolder(folder: string): { release(): void } | undefined {
  const path = join(folder, "relay.lock");
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  closeSync(openSync(path, "a", 0o600));
  const db = new DatabaseSync(path, { timeout: WAIT_MS });
  try {
    // SQLite holds an exclusive lock on the file for as long as this transaction is open.
    db.exec("BEGIN EXCLUSIVE");
    held.add(db);
    return {
      release() {
        held.delete(db);
        db.close();
      },
    };
  } catch (error) {
    db.close();
    if (isBusy(error)) return undefined;
    throw explainSqlError(path, error);
  }
}

/** Whether a relay holds the folder now. */
export function isLocked(folder: string): boolean {
  const path = join(folder, "relay.lock");
  if (!existsSync(path)) return false;
  const db = new DatabaseSync(path, { timeout: 0, readOnly: true });
  try {
    db.prepare("SELECT count(*) FROM sqlite_schema").get();
    return false;
  } catch (error) {
    if (isBusy(error)) return true;
    throw explainSqlError(path, error);
  } finally {
    db.close();
  }
}

const isBusy = (error: unknown): boolean => (error as { errcode?: unknown }).errcode === SQLITE_BUSY;
