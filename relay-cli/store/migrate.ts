import { StateError } from "./errors.ts";
import { MIGRATIONS, SCHEMA_VERSION } from "./migrations.ts";
import type { Sql } from "./sql.ts";

export { SCHEMA_VERSION };

/** "GRLY": marks the file as ours (SQLite's `application_id`). */
const APPLICATION_ID = 0x47524c59;

/** The version a state file has; 0 for a new one. Throws `StateError` if it is another program's file. */
export function versionOf(sql: Sql, path: string): number {
  const owner = sql.get<{ application_id: number }>("PRAGMA application_id")?.application_id;
  const tables = sql.get<{ n: number }>("SELECT count(*) AS n FROM sqlite_schema")?.n ?? 0;
  if (owner !== APPLICATION_ID && tables > 0)
    throw new StateError(path, "is another program's database", "Name another folder with --state.");
  return sql.get<{ user_version: number }>("PRAGMA user_version")?.user_version ?? 0;
}

/** Brings the tables to the newest version. Each step is whole or not there; two processes may do it at once. */
export function migrate(sql: Sql): void {
  for (const migration of MIGRATIONS) {
    const current = () => sql.get<{ user_version: number }>("PRAGMA user_version")?.user_version ?? 0;
    if (current() >= migration.version) continue;
    sql.atomically(() => {
      if (current() >= migration.version) return;
      for (const statement of migration.sql.split(/;\s*\n/)) if (statement.trim()) sql.run(statement);
      sql.run(`PRAGMA application_id = ${APPLICATION_ID}`);
      sql.run(`PRAGMA user_version = ${migration.version}`);
    });
  }
}
