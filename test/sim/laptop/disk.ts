import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite";
import type { Sql, SqlValue } from "../../../relay-cli/store/sql.ts";

/** What may happen around one durable write: it fails, or the process is gone before or after it. */
type WriteFault = "full" | "killed_before" | "killed_after";

/** What a write meets. */
export interface DiskWeather {
  write(): WriteFault | undefined;
  /** Kills the process that writes and throws. */
  kill(): never;
}

/** The state folder: it outlives every process that uses it, and can be copied. */
export class Disk {
  readonly database = new DatabaseSync(":memory:");
  readonly #statements = new Map<string, StatementSync>();

  constructor(copyOf?: Disk) {
    if (copyOf !== undefined) this.database.deserialize(copyOf.database.serialize());
    this.database.exec("PRAGMA foreign_keys = on");
  }

  prepare(statement: string): StatementSync {
    let prepared = this.#statements.get(statement);
    if (prepared === undefined) {
      prepared = this.database.prepare(statement);
      this.#statements.set(statement, prepared);
    }
    return prepared;
  }

  close(): void {
    this.#statements.clear();
    this.database.close();
  }
}

/** The `Sql` port of one process on a disk. `check` throws once the process is gone. */
export function openDisk(disk: Disk, check: () => void, weather: DiskWeather): Sql {
  let depth = 0;
  let wrote = false;
  const execute = (statement: string, values: SQLInputValue[]): number => {
    const changes = Number(disk.prepare(statement).run(...values).changes);
    if (changes > 0) wrote = true;
    return changes;
  };
  /** One durable write. What changed nothing meets no fault: SQLite writes no page for it. */
  const durably = <T>(write: () => T): T => {
    wrote = false;
    disk.database.exec("BEGIN IMMEDIATE");
    depth++;
    try {
      const result = write();
      const fault = wrote ? weather.write() : undefined;
      if (fault === "full") throw new Error("database or disk is full");
      if (fault === "killed_before") weather.kill();
      disk.database.exec("COMMIT");
      if (fault === "killed_after") weather.kill();
      return result;
    } catch (error) {
      if (disk.database.isTransaction) disk.database.exec("ROLLBACK");
      throw error;
    } finally {
      depth--;
    }
  };
  return {
    run: (statement: string, ...values: SqlValue[]) => {
      check();
      return depth > 0 ? execute(statement, values) : durably(() => execute(statement, values));
    },
    get: <Row>(statement: string, ...values: SqlValue[]) => {
      check();
      return disk.prepare(statement).get(...values) as Row | undefined;
    },
    all: <Row>(statement: string, ...values: SqlValue[]) => {
      check();
      return disk.prepare(statement).all(...values) as Row[];
    },
    atomically: <T>(body: () => T): T => {
      check();
      return depth > 0 ? body() : durably(body);
    },
    close: () => {},
  };
}
