import { globSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { describe, expect, it } from "vitest";

// worker → durable → protocol ← relay-cli; the engine stands alone (docs/architecture.md).
const MAY_IMPORT: Record<string, readonly string[]> = {
  "src/protocol": ["src/protocol"],
  "src/durable": ["src/durable", "src/protocol"],
  "src/worker": ["src/worker", "src/durable", "src/protocol"],
  "relay-cli/engine": ["relay-cli/engine"],
  "relay-cli": ["relay-cli", "src/protocol"],
};
const areaOf = (path: string) => Object.keys(MAY_IMPORT).find((area) => path.startsWith(`${area}/`));

const files = globSync(["src/**/*.ts", "relay-cli/**/*.{ts,mjs}"], {
  exclude: (name) => /node_modules|dist/.test(String(name)),
});

/** The imports of a file, static or not, that run against the direction. */
function offences(path: string, text: string): string[] {
  const found = text.matchAll(/(?:from|import)\s*\(?\s*["'](\.[^"']+)["']/g);
  const allowed = MAY_IMPORT[areaOf(path) ?? ""] ?? [];
  return Array.from(found, (m) => normalize(join(dirname(path), m[1] ?? ""))).filter(
    (target) => !allowed.some((area) => target.startsWith(`${area}/`)),
  );
}

describe("imports run in one direction", () => {
  it("finds the files it judges", () => expect(files.length).toBeGreaterThan(20));

  it.each(files)("%s", (path) => expect(offences(path, readFileSync(path, "utf8"))).toEqual([]));

  it.each([
    ["src/protocol/ids.ts", 'import { Queue } from "../durable/queue.ts";'],
    ["relay-cli/relay/pass.ts", 'export { routes } from "../../src/worker/index.ts";'],
    ["relay-cli/engine/index.ts", 'const store = await import("../store/open.ts");'],
    ["src/durable/queue.ts", 'import "../worker/env.ts";'],
  ])("an import against it is noticed in %s", (path, text) => {
    expect(offences(path, text)).toHaveLength(1);
  });
});
