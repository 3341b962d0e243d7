import { readFileSync } from "node:fs";
import { generateSQLiteDrizzleJson, generateSQLiteMigration } from "drizzle-kit/api";
import { expect, it } from "vitest";
import * as schema from "../../src/durable/schema.ts";
import { readBundle } from "../support/queue-storage.ts";

const { journal } = readBundle();

it("the migrations of a project's object make the tables that its code knows (npm run db:generate)", async () => {
  const last = journal.entries.at(-1);
  const snapshot = new URL(
    `../../src/durable/migrations/meta/${String(last?.idx).padStart(4, "0")}_snapshot.json`,
    import.meta.url,
  );
  const stored = JSON.parse(readFileSync(snapshot, "utf8"));
  const missing = await generateSQLiteMigration(stored, await generateSQLiteDrizzleJson(schema, stored.id));
  expect(missing).toEqual([]);
});
