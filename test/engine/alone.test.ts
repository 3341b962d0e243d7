import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import { createEngine } from "../../relay-cli/engine/index.ts";

const ENGINE = resolve(import.meta.dirname, "../../relay-cli/engine");
const TEMPLATES = resolve(import.meta.dirname, "../../relay-cli/templates");

const sources = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.m?ts$|\.m?js$/.test(entry.name))
    .map((entry) => join(entry.parentPath, entry.name));

const importsOf = (file: string): string[] =>
  [...readFileSync(file, "utf8").matchAll(/(?:from|import)\s*\(?\s*"([^"]+)"/g)].map((m) => m[1] ?? "");

test("nothing in the engine imports anything outside of it but packages and Node's own modules", () => {
  const outside = sources(ENGINE).flatMap((file) =>
    importsOf(file)
      .filter((name) => name.startsWith(".") && !resolve(join(file, ".."), name).startsWith(`${ENGINE}/`))
      .map((name) => `${file}: ${name}`),
  );
  expect(outside).toEqual([]);
});

test("templates import nothing, so that they work wherever they are copied to", () => {
  expect(sources(TEMPLATES).flatMap(importsOf)).toEqual([]);
});

test("a Graph's process loads no package but the schema validator, as it is bundled small", () => {
  const packages = sources(join(ENGINE, "host"))
    .flatMap(importsOf)
    .filter((name) => !/^(?:\.|node:)/.test(name));
  expect(packages).toEqual(["@cfworker/json-schema"]);
});

test("the engine by itself, without relay, store or server, runs a Graph", async () => {
  const engine = createEngine({ settings: async () => ({ folders: [{ path: TEMPLATES, write: false }] }) });
  const graph = { slug: "folder-report", path: join(TEMPLATES, "folder-report.mjs") };
  const described = await engine.describe(graph);
  expect(described).toMatchObject({ ok: true, meta: { name: "Folder report", version: "1.0.0" } });
  const outcome = await engine.run({
    execution_id: crypto.randomUUID(),
    channel: "graph:local:test",
    graph,
    args: { top: 3 },
    onEvent: () => {},
  });
  expect(outcome).toMatchObject({ status: "completed", total_tokens: null, reported_cost: null });
  expect(JSON.parse(outcome.result_json ?? "")).toMatchObject({ folder: TEMPLATES, complete: true });
});
