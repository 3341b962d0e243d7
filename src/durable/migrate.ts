/** What `drizzle-kit generate` writes: the order of the migrations, and their SQL by `m0000`, `m0001`… */
export interface MigrationBundle {
  journal: { entries: { idx: number; tag: string }[] };
  migrations: Record<string, string>;
}

/** What migrating needs of an object's storage. */
export interface MigratedStorage {
  sql: { exec(query: string, ...bindings: (string | number)[]): { toArray(): unknown[] } };
  transactionSync<T>(work: () => T): T;
}

/** Whether the object holds anything: looking leaves an object that was never set up as empty as it was. */
export function isSetUp(storage: MigratedStorage): boolean {
  const found = storage.sql.exec("select 1 from sqlite_master where type = 'table' and name = '_migrations'");
  return found.toArray().length > 0;
}

/**
 * Brings the tables to the newest form, all in one transaction. drizzle's own migrator hides what failed
 * behind "Rollback"; this one throws SQLite's error. Throws too if the bundle lacks a migration's SQL.
 */
export function migrate(storage: MigratedStorage, bundle: MigrationBundle): void {
  storage.transactionSync(() => {
    storage.sql.exec("create table if not exists _migrations (idx integer primary key, tag text not null)");
    const done = storage.sql.exec("select max(idx) as last from _migrations").toArray();
    const last = (done[0] as { last: number | null }).last ?? -1;
    for (const { idx, tag } of bundle.journal.entries) {
      if (idx <= last) continue;
      const text = bundle.migrations[`m${String(idx).padStart(4, "0")}`];
      if (text === undefined) throw new Error(`migration ${tag} is not in the bundle`);
      for (const statement of text.split("--> statement-breakpoint")) storage.sql.exec(statement);
      storage.sql.exec("insert into _migrations values (?, ?)", idx, tag);
    }
  });
}
