import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite";

/** Thrown out of a storage call at the moment the object's process is gone. */
export class Evicted extends Error {
  constructor() {
    super("Durable Object reset because its process was evicted.");
  }
}

/** What may go wrong at a write: nothing, or the process is gone before it. */
export type BeforeWrite = (statement: string) => void;

type Row = Record<string, SQLInputValue>;

interface Prepared {
  prepared: StatementSync;
  /** Names of the columns it answers with; none for a write that returns nothing. */
  columns: string[];
}

/**
 * What is left of an object when its process is gone: its database and its alarm. In a database of
 * node:sqlite in memory, with the same engine and the same statements as in workerd.
 */
export class ObjectDisk {
  readonly database = new DatabaseSync(":memory:");
  alarm: number | null = null;
  /** Called when the tables have been made. */
  onTables: (() => void) | undefined;
  /** What is to be noted once the writes that caused it are on the disk. */
  readonly #notes: (() => void)[] = [];
  /** All of it is being deleted. */
  wiping = false;
  readonly #statements = new Map<string, Prepared>();
  #depth = 0;
  /** The alarm as it was before the turn that is writing now, if one is. */
  #before: { alarm: number | null } | undefined;

  constructor() {
    this.database.exec("PRAGMA foreign_keys = on");
  }

  /** Runs `note` when the turn is on the disk; never, if what happens now is rolled back. */
  whenStored(note: () => void): void {
    this.#notes.push(note);
  }

  exec(sql: string, values: readonly unknown[]): Cursor {
    const { prepared, columns } = this.#prepare(sql);
    const bound = values.map(toSql);
    if (columns.length === 0) {
      prepared.run(...bound);
      if (/^\s*create table `payloads`/i.test(sql)) this.onTables?.();
      return new Cursor([], []);
    }
    return new Cursor(columns, prepared.all(...bound) as unknown as SQLInputValue[][]);
  }

  /** Runs `work` as a savepoint: all of its writes or none. */
  transaction<T>(work: () => T): T {
    const name = `s${this.#depth++}`;
    const notes = this.#notes.length;
    this.database.exec(`SAVEPOINT ${name}`);
    try {
      const result = work();
      this.database.exec(`RELEASE ${name}`);
      return result;
    } catch (error) {
      // An eviction has rolled back all of the turn already.
      if (this.#before !== undefined) this.database.exec(`ROLLBACK TO ${name}; RELEASE ${name}`);
      this.#notes.length = Math.min(this.#notes.length, notes);
      throw error;
    } finally {
      this.#depth = Math.max(0, this.#depth - 1);
    }
  }

  /**
   * Whatever code writes without waiting in between reaches the disk as one, alarm included, and is lost as
   * one: the platform's implicit transaction. Called before each write.
   */
  beginTurn(): void {
    if (this.#before !== undefined) return;
    this.#before = { alarm: this.alarm };
    this.database.exec("BEGIN");
  }

  /** The turn is over and what it wrote is on the disk. Only then may an answer leave. */
  endTurn(): void {
    if (this.#before === undefined) return;
    this.#before = undefined;
    this.database.exec("COMMIT");
    for (const note of this.#notes.splice(0)) note();
  }

  /** The process went in the middle of a turn. */
  loseTurn(): void {
    if (this.#before === undefined) return;
    this.alarm = this.#before.alarm;
    this.#before = undefined;
    this.#notes.length = 0;
    this.database.exec("ROLLBACK");
    this.#depth = 0;
  }

  /** Everything is gone, the alarm too, as `deleteAll` does since 2026-02-24. */
  wipe(): void {
    this.wiping = true;
    this.#statements.clear();
    const tables = this.database
      .prepare("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
      .all();
    this.database.exec("PRAGMA foreign_keys = off");
    for (const table of tables) this.database.exec(`DROP TABLE "${table.name}"`);
    this.database.exec("PRAGMA foreign_keys = on");
    this.alarm = null;
    this.wiping = false;
  }

  close(): void {
    this.#statements.clear();
    this.database.close();
  }

  #prepare(sql: string): Prepared {
    let statement = this.#statements.get(sql);
    if (statement === undefined) {
      const prepared = this.database.prepare(sql);
      prepared.setReturnArrays(true);
      statement = { prepared, columns: prepared.columns().map((c) => c.name) };
      this.#statements.set(sql, statement);
    }
    return statement;
  }
}

/** What `sql.exec` answers with; already read to the end. */
class Cursor implements Iterable<Row> {
  readonly columnNames: string[];
  readonly #rows: SQLInputValue[][];
  #at = 0;

  constructor(columns: string[], rows: SQLInputValue[][]) {
    this.columnNames = columns;
    this.#rows = rows;
  }

  toArray(): Row[] {
    return this.#rows.slice(this.#at).map((row) => this.#object(row));
  }

  one(): Row {
    const [row] = this.#rows;
    if (row === undefined || this.#rows.length !== 1)
      throw new Error(`Expected exactly one result from SQL query, but got ${this.#rows.length}.`);
    return this.#object(row);
  }

  raw() {
    const rows = this.#rows;
    return { toArray: () => rows, [Symbol.iterator]: () => rows[Symbol.iterator]() };
  }

  next(): IteratorResult<Row, undefined> {
    const row = this.#rows[this.#at++];
    return row === undefined ? { done: true, value: undefined } : { done: false, value: this.#object(row) };
  }

  get rowsRead(): number {
    return this.#rows.length;
  }

  get rowsWritten(): number {
    return 0;
  }

  [Symbol.iterator](): Iterator<Row> {
    return this.toArray()[Symbol.iterator]();
  }

  #object(row: SQLInputValue[]): Row {
    const object: Row = {};
    for (let i = 0; i < row.length; i++) object[this.columnNames[i] as string] = row[i] as SQLInputValue;
    return object;
  }
}

function toSql(value: unknown): SQLInputValue {
  if (typeof value === "boolean") return value ? 1 : 0;
  if (value instanceof ArrayBuffer) return new Uint8Array(value);
  return (value ?? null) as SQLInputValue;
}

const WRITES = /^\s*(?:insert|update|delete|replace|with[\s\S]*(?:insert|update|delete)|create|drop|alter)/i;

/**
 * The `ctx.storage` of one life of an object. `guard` is called before anything reaches the disk and
 * throws once that life is over.
 */
export function objectStorage(
  disk: ObjectDisk,
  guard: () => void,
  beforeWrite: BeforeWrite,
  armed: () => void,
) {
  /** Nobody need wait for it: if it cannot be stored, no answer leaves. */
  const alarm = (time: number | null): Promise<void> => {
    guard();
    disk.beginTurn();
    try {
      beforeWrite("set alarm");
    } catch {
      return new Promise(() => {});
    }
    disk.alarm = time;
    armed();
    return Promise.resolve();
  };
  return {
    sql: {
      exec(sql: string, ...values: unknown[]) {
        guard();
        if (WRITES.test(sql)) {
          disk.beginTurn();
          beforeWrite(sql);
        }
        return disk.exec(sql, values);
      },
      get databaseSize() {
        return 4096;
      },
    },
    transactionSync<T>(work: () => T): T {
      guard();
      disk.beginTurn();
      return disk.transaction(work);
    },
    async getAlarm() {
      guard();
      return disk.alarm;
    },
    setAlarm(time: number | Date) {
      return alarm(Number(time));
    },
    deleteAlarm() {
      return alarm(null);
    },
    async deleteAll() {
      guard();
      disk.endTurn();
      disk.wipe();
      armed();
    },
    async sync() {},
  };
}
