import { readdirSync, readFileSync } from "node:fs";
import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite";

/** How long a call to D1 takes, and what becomes of it. */
export interface D1Weather {
  /** Milliseconds there and back; `before`: fails with nothing done; `after`: done, but the answer is an error. */
  next(): { there: number; back: number; fails?: "before" | "after" };
  sleep(milliseconds: number): Promise<void>;
}

interface D1Result {
  success: true;
  results: Record<string, unknown>[];
  meta: { changes: number; last_row_id: number; rows_read: number; rows_written: number; duration: number };
}

const migrations = (folder: string): string[] =>
  readdirSync(folder)
    .filter((name) => name.endsWith(".sql"))
    .sort()
    .map((name) => readFileSync(`${folder}/${name}`, "utf8"));

/**
 * A D1 database over node:sqlite: the calls that the product and drizzle make, each one a round trip
 * that can be slow or fail. `batch` is one transaction, and a statement is at most once applied, as on D1.
 */
export class SimulatedD1 {
  readonly database = new DatabaseSync(":memory:");
  readonly #statements = new Map<string, { prepared: StatementSync; answers: boolean }>();
  readonly #weather: D1Weather;

  constructor(migrationsFolder: string, weather: D1Weather) {
    this.#weather = weather;
    this.database.exec("PRAGMA foreign_keys = on");
    for (const sql of migrations(migrationsFolder)) this.database.exec(sql);
  }

  prepare(sql: string): Statement {
    return new Statement(this, sql, []);
  }

  async batch(statements: readonly Statement[]): Promise<D1Result[]> {
    return this.trip(() => {
      this.database.exec("BEGIN");
      try {
        const results = statements.map((s) => this.apply(s.sql, s.values));
        this.database.exec("COMMIT");
        return results;
      } catch (error) {
        this.database.exec("ROLLBACK");
        throw error;
      }
    });
  }

  withSession(): this {
    return this;
  }

  apply(sql: string, values: readonly SQLInputValue[]): D1Result {
    const { prepared, answers } = this.#prepare(sql);
    let results: Record<string, unknown>[] = [];
    let changes = 0;
    let last = 0;
    if (answers) results = prepared.all(...values).map((row) => ({ ...row }));
    else {
      const done = prepared.run(...values);
      changes = Number(done.changes);
      last = Number(done.lastInsertRowid);
    }
    if (results.length > 0 && /^\s*(?:insert|update|delete)/i.test(sql)) changes = results.length;
    const meta = {
      changes,
      last_row_id: last,
      rows_read: results.length,
      rows_written: changes,
      duration: 0,
    };
    return { success: true, results, meta };
  }

  async trip<T>(work: () => T): Promise<T> {
    const { there, back, fails } = this.#weather.next();
    await this.#weather.sleep(there);
    if (fails === "before") throw new Error("D1_ERROR: Network connection lost.");
    const result = work();
    if (back > 0) await this.#weather.sleep(back);
    if (fails === "after") throw new Error("D1_ERROR: D1 DB storage operation exceeded timeout.");
    return result;
  }

  #prepare(sql: string) {
    let statement = this.#statements.get(sql);
    if (statement === undefined) {
      const prepared = this.database.prepare(sql);
      statement = { prepared, answers: prepared.columns().length > 0 };
      this.#statements.set(sql, statement);
    }
    return statement;
  }
}

class Statement {
  readonly #d1: SimulatedD1;
  readonly sql: string;
  readonly values: readonly SQLInputValue[];

  constructor(d1: SimulatedD1, sql: string, values: readonly SQLInputValue[]) {
    this.#d1 = d1;
    this.sql = sql;
    this.values = values;
  }

  bind(...values: unknown[]): Statement {
    const bound = values.map((v) => (typeof v === "boolean" ? Number(v) : (v ?? null)) as SQLInputValue);
    return new Statement(this.#d1, this.sql, bound);
  }

  all(): Promise<D1Result> {
    return this.#d1.trip(() => this.#d1.apply(this.sql, this.values));
  }

  run(): Promise<D1Result> {
    return this.all();
  }

  async raw(): Promise<unknown[][]> {
    return (await this.all()).results.map((row) => Object.values(row));
  }

  async first(column?: string): Promise<unknown> {
    const [row] = (await this.all()).results;
    if (row === undefined) return null;
    return column === undefined ? row : row[column];
  }
}
