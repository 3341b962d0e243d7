import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";

const PAGES = ["README.md", "relay-cli/README.md", ...globSync("docs/*.md")];
const linksOf = (page: string) =>
  [...readFileSync(page, "utf8").matchAll(/\]\((?!https?:)([^)#]+)[^)]*\)/g)].map(([, path = ""]) => path);

describe("the docs", () => {
  it.each(PAGES)("%s links to nothing that is not there", (page) => {
    expect(linksOf(page).filter((path) => !existsSync(join(dirname(page), path)))).toEqual([]);
  });

  it("name test files that exist, where they say what shows a promise", () => {
    const named = [
      ...readFileSync("docs/guarantees.md", "utf8").matchAll(/`((?:worker|relay|e2e)\/[a-z-]+)`/g),
    ];
    expect(named.length).toBeGreaterThan(10);
    expect(named.map(([, name]) => name).filter((name) => !existsSync(`test/${name}.test.ts`))).toEqual([]);
  });
});
