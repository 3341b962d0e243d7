import { drizzle } from "drizzle-orm/d1";
import * as schema from "./schema.ts";

/** The D1 database, typed by the schema. Rows are named as in SQL. */
export const database = (d1: D1Database) => drizzle(d1, { schema });
export type Database = ReturnType<typeof database>;
/** A statement for `Database.batch`, which runs all of them or none. */
export type Statement = Parameters<Database["batch"]>[0][number];

/** Whether a guarded write changed a row: whether it won. */
export const won = (result: D1Result): boolean => result.meta.changes > 0;
