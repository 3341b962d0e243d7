import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";

// D1 and the object's SQLite enforce foreign keys always: a migration that rebuilds a table by dropping it
// takes the rows of every child along where the key cascades, and fails where it does not.

const FOLDERS = ["migrations", "src/durable/migrations"];
const files = FOLDERS.flatMap((folder) =>
  readdirSync(folder)
    .filter((name) => name.endsWith(".sql"))
    .map((name) => join(folder, name)),
);

describe.each(files)("%s", (file) => {
  const sql = readFileSync(file, "utf8");

  it("drops no table and switches no foreign keys off", () => {
    expect(sql).not.toMatch(/DROP\s+TABLE/i);
    expect(sql).not.toMatch(/foreign_keys\s*=\s*off/i);
  });

  it("cascades nothing", () => {
    expect(sql).not.toMatch(/ON\s+DELETE\s+CASCADE/i);
  });
});

it("tables that are found by a text or several columns have no second tree for their row ids", () => {
  const sql = files.map((file) => readFileSync(file, "utf8")).join("\n");
  for (const table of [
    "agent_projects",
    "graph_sessions",
    "used_assertions",
    "oauth_store",
    "refresh_answers",
    "one_time_codes",
    "web_sessions",
  ])
    expect(sql).toMatch(new RegExp(`CREATE TABLE \`${table}\` \\([^;]*\\) WITHOUT ROWID;`));
});
