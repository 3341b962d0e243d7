import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { EXIT_CODES } from "../../relay-cli/exit-codes.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const run = promisify(execFile);

// The package as people get it: packed, and installed into an empty folder.

let folder: string;
let program: string;
let listed: string[];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "graph-relay-package-"));
  const packed = await run("npm", ["pack", "--json", "--pack-destination", folder], {
    cwd: join(ROOT, "relay-cli"),
  });
  const report = /\[\s*\{[\s\S]*\]\s*$/.exec(packed.stdout)?.[0] ?? "";
  const [{ filename, files }] = JSON.parse(report) as [{ filename: string; files: { path: string }[] }];
  listed = files.map((file) => file.path);
  writeFileSync(join(folder, "package.json"), '{"private":true,"type":"module"}');
  await run("npm", ["install", "--no-audit", "--no-fund", "--prefer-offline", join(folder, filename)], {
    cwd: folder,
  });
  program = join(folder, "node_modules/.bin/graph-relay");
}, 120_000);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Runs the installed program with a state folder of its own. */
const graphRelay = (...words: string[]) =>
  run(process.execPath, [program, "--state", join(folder, "state"), ...words], { cwd: folder });

test("it holds the program, the templates and the readme, and no source, test or state", () => {
  for (const file of [
    "dist/main.js",
    "dist/engine.js",
    "dist/host.js",
    "templates/folder-report.mjs",
    "README.md",
    "package.json",
  ])
    expect(listed).toContain(file);
  const expected =
    /^(dist\/[\w-]+\.js|dist\/types\/.+\.d\.ts|templates\/[\w-]+\.mjs|README\.md|package\.json)$/;
  expect(listed.filter((file) => !expected.test(file))).toEqual([]);
});

test("it says its version and its help, with every exit code", async () => {
  const { version } = JSON.parse(readFileSync(join(ROOT, "relay-cli/package.json"), "utf8")) as {
    version: string;
  };
  expect((await graphRelay("--version")).stdout.trim()).toBe(version);
  const { stdout, stderr } = await graphRelay("--help");
  expect(stderr).toBe("");
  for (const [code] of Object.values(EXIT_CODES)) expect(stdout).toContain(` ${code}  `);
});

test("it runs a template", async () => {
  await graphRelay(
    "graph",
    "add",
    "node_modules/graph-relay/templates/folder-report.mjs",
    "--folder",
    folder,
  );
  const { stdout } = await graphRelay("run", "folder-report", '{"ignore":["node_modules"]}');
  expect(JSON.parse(stdout)).toMatchObject({ complete: true, folder });
});

test("its engine can be imported on its own, with types", async () => {
  const graph = join(folder, "sum.mjs");
  writeFileSync(graph, "export default ({ args }) => args.a + args.b;");
  writeFileSync(
    join(folder, "alone.ts"),
    `import { createEngine } from "graph-relay/engine";
     const outcome = await createEngine().run({
       execution_id: crypto.randomUUID(), channel: "graph:local:x",
       graph: { slug: "sum", path: ${JSON.stringify(graph)} }, args: { a: 1, b: 2 }, onEvent: () => {},
     });
     console.log(outcome.result_json satisfies string | undefined);`,
  );
  const { stdout } = await run(process.execPath, ["alone.ts"], { cwd: folder });
  expect(stdout.trim()).toBe("3");
  const types = ["--noEmit", "--strict", "--module", "nodenext", "--target", "es2024", "--types", "node"];
  await run("tsc", [...types, "--typeRoots", join(ROOT, "node_modules/@types"), "alone.ts"], { cwd: folder });
});
