import { globSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { DOCS_TABLES, withoutPadding, withTables } from "../../scripts/lib/docs-tables.ts";

const pages = globSync("docs/*.md");

it.each(pages)("the tables of %s are those of the code (npm run docs writes them)", (path) => {
  const page = readFileSync(path, "utf8");
  expect(withoutPadding(withTables(page))).toBe(withoutPadding(page));
});

it("only a table's padding is a formatter's affair", () => {
  const bare = "| a | b |\n| --- | --- |\n| `x y` | a \\| b |\n\ntext  |  ---- |";
  expect(
    withoutPadding("| a     | b      |\n| ----- | ------ |\n| `x y` | a \\| b |\n\ntext  |  ---- |"),
  ).toBe(bare);
  expect(withoutPadding(bare)).toBe(bare);
  expect(withoutPadding("| a | c |")).not.toBe(withoutPadding("| a | b |"));
});

it("every table made from the code stands on a page", () => {
  const all = pages.map((path) => readFileSync(path, "utf8")).join("\n");
  for (const name of Object.keys(DOCS_TABLES)) expect(all).toContain(`<!-- table: ${name} -->`);
});

it("a marker without a table is an error, not an empty place", () => {
  expect(() => withTables("<!-- table: nothing -->\n\n<!-- end -->")).toThrow("no table named nothing");
});
