import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { withoutPadding } from "../../scripts/lib/docs-tables.ts";
import { GUARANTEES } from "./invariants/guarantees.ts";

it("docs/guarantees.md names each invariant of the simulation, with its sentence, and no other", () => {
  const page = readFileSync(new URL("../../docs/guarantees.md", import.meta.url), "utf8");
  const section =
    /\| name \| what holds \|\n\| --- \| --- \|\n([\s\S]*?)\n\n/.exec(withoutPadding(page))?.[1] ?? "";
  const rows = section.split("\n").map((row) => /^\| (.+?) \| (.+) \|$/.exec(row)?.slice(1));
  expect(rows).toEqual(Object.entries(GUARANTEES));
});
