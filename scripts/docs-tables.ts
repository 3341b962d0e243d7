import { globSync, readFileSync, writeFileSync } from "node:fs";
import { withoutPadding, withTables } from "./lib/docs-tables.ts";

// `npm run docs`: writes the tables of docs/ that come from the code.
for (const path of globSync("docs/*.md")) {
  const page = readFileSync(path, "utf8");
  const current = withTables(page);
  if (withoutPadding(current) === withoutPadding(page)) continue;
  writeFileSync(path, current);
  console.log(`${path} written`);
}
