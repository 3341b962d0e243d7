import { readFileSync } from "node:fs";
import { DatabaseSync, type StatementSync } from "node:sqlite";
import { drizzle } from "drizzle-orm/durable-sqlite";
import type { QueueHost } from "../../src/durable/effects.ts";
import { type MigratedStorage, type MigrationBundle, migrate } from "../../src/durable/migrate.ts";
import { Queue } from "../../src/durable/queue.ts";
import type { Db } from "../../src/durable/scope.ts";
import type { Clock } from "../../src/protocol/ports.ts";

const MIGRATIONS = new URL("../../src/durable/migrations/", import.meta.url);
const text = (name: string) => readFileSync(new URL(name, MIGRATIONS), "utf8");

/** The object's migrations as Node reads them; wrangler imports the same files as text. */
export function readBundle(): MigrationBundle {
  const journal = JSON.parse(text("meta/_journal.json")) as MigrationBundle["journal"];
  const sql = journal.entries.map((e) => [`m${String(e.idx).padStart(4, "0")}`, text(`${e.tag}.sql`)]);
  return { journal, migrations: Object.fromEntries(sql) };
}

const BUNDLE = readBundle();

type Value = string | number | null;

/** What the queue needs of an object's storage, over `node:sqlite`; `path` is a file or `:memory:`. */
export class NodeStorage implements MigratedStorage {
  readonly #database: DatabaseSync;
  readonly #statements = new Map<string, StatementSync>();
  #depth = 0;

  constructor(path = ":memory:") {
    this.#database = new DatabaseSync(path);
  }

  readonly sql = {
    exec: (query: string, ...bindings: Value[]) => {
      const statement = this.#prepare(query);
      const rows = statement.all(...bindings) as unknown as unknown[][];
      const names = statement.columns().map((column) => column.name);
      const objects = () => rows.map((row) => Object.fromEntries(row.map((value, i) => [names[i], value])));
      return {
        toArray: objects,
        next: () => objects().values().next(),
        raw: () => ({ toArray: () => rows }),
      };
    },
  };

  transactionSync<T>(work: () => T): T {
    const name = `s${this.#depth++}`;
    this.#database.exec(`savepoint ${name}`);
    try {
      const value = work();
      this.#database.exec(`release ${name}`);
      return value;
    } catch (error) {
      this.#database.exec(`rollback to ${name}; release ${name}`);
      throw error;
    } finally {
      this.#depth--;
    }
  }

  close(): void {
    this.#statements.clear();
    this.#database.close();
  }

  #prepare(query: string): StatementSync {
    const known = this.#statements.get(query);
    if (known) return known;
    const statement = this.#database.prepare(query);
    statement.setReturnArrays(true);
    this.#statements.set(query, statement);
    return statement;
  }
}

const NOBODY: QueueHost = { changed: () => {}, wake: () => {}, due: () => {} };

/** A queue under Node. Opening the same storage again is what the object does after it slept or died. */
export function openQueue(clock: Clock, host: QueueHost = NOBODY, storage = new NodeStorage()) {
  migrate(storage, BUNDLE);
  // drizzle's driver asks no more of the object's storage than `NodeStorage` has.
  const db: Db = drizzle(storage as unknown as Parameters<typeof drizzle>[0]);
  return { queue: new Queue(db, clock, host), db, storage };
}
