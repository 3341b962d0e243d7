import type { Sql } from "./sql.ts";

/** Tells every process with this file that pairing, Graphs, projects or shares changed. Part of the caller's write. */
export const bumpSharingVersion = (sql: Sql): void => {
  sql.run("UPDATE meta SET value = CAST(CAST(value AS INTEGER) + 1 AS TEXT) WHERE key = 'sharing_version'");
};

export const sharingVersion = (sql: Sql): number =>
  sql.get<{ v: number }>("SELECT CAST(value AS INTEGER) AS v FROM meta WHERE key = 'sharing_version'")?.v ??
  0;
