import { DatabaseSync, type StatementSync } from "node:sqlite";
import { explainSqlError } from "./errors.ts";
import type { Sql, SqlValue } from "./sql.ts";

/** How long a write waits for another process that writes, in milliseconds. */
const BUSY_MS = 5_000;

/** `Sql` over a SQLite file, or over `:memory:`. WAL with full synchronisation: a write that returned is on the disk. */
export function nodeSql(path: string): Sql {
  const explained = <T>(body: () => T): T => {
    try {
      return body();
    } catch (error) {
      throw explainSqlError(path, error);
    }
  };
  const db = explained(() => new DatabaseSync(path, { timeout: BUSY_MS }));
  try {
    explained(() => {
      db.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;");
    });
  } catch (error) {
    db.close();
    throw error;
  }

  const statements = new Map<string, StatementSync>();
  const prepared = (text: string): StatementSync => {
    const known = statements.get(text) ?? db.prepare(text);
    statements.set(text, known);
    return known;
  };
  let depth = 0;

  return {
    run: (text, ...values) => explained(() => Number(prepared(text).run(...values).changes)),
    get: <Row>(text: string, ...values: SqlValue[]) =>
      explained(() => prepared(text).get(...values) as Row | undefined),
    all: <Row>(text: string, ...values: SqlValue[]) =>
      explained(() => prepared(text).all(...values) as Row[]),
    atomically<T>(body: () => T): T {
      if (depth > 0) return body();
      return explained(() => {
        db.exec("BEGIN IMMEDIATE");
        depth++;
        try {
          const value = body();
          db.exec("COMMIT");
          return value;
        } catch (error) {
          // SQLite has rolled back by itself after some errors, a full disk among them.
          if (db.isTransaction) db.exec("ROLLBACK");
          throw error;
        } finally {
          depth--;
        }
      });
    },
    close: () => db.close(),
  };
}
