/** What a column holds. */
export type SqlValue = null | number | string;

/**
 * The one door to the disk. Each `run` outside `atomically`, and each `atomically` as a whole, is one
 * durable write: when it returns, it survives a crash; when it throws, nothing of it is there.
 */
export interface Sql {
  /** Runs one statement and returns how many rows it changed. */
  run(statement: string, ...values: SqlValue[]): number;
  /** The first row, or undefined. The caller names the row's shape. */
  get<Row>(statement: string, ...values: SqlValue[]): Row | undefined;
  all<Row>(statement: string, ...values: SqlValue[]): Row[];
  /** All the writes of `body`, or none of them. Nested calls join the outer one. */
  atomically<T>(body: () => T): T;
  close(): void;
}
