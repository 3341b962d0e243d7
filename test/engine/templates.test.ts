import { execFileSync } from "node:child_process";
import { chmodSync, cpSync, mkdirSync, writeFileSync } from "node:fs";
import { delimiter, join, resolve } from "node:path";
import { afterAll, afterEach, expect, test, vi } from "vitest";
import { engineConfig } from "../../relay-cli/engine/index.ts";
import { startModelServer } from "./support/model-server.ts";
import { checkLeftovers, openWorkshop } from "./support/workshop.ts";

// Each test starts processes; on a busy machine that alone takes seconds.
vi.setConfig({ testTimeout: 90_000 });

const TEMPLATES = resolve(import.meta.dirname, "../../relay-cli/templates");
const model = await startModelServer();
const settings: Record<string, object> = {};
const env: Record<string, string | undefined> = { PATH: process.env.PATH, HOME: process.env.HOME };
const shop = openWorkshop(settings, {
  config: async () =>
    engineConfig.parse({
      default_model: "local/small",
      providers: { local: { kind: "openai-compatible", base_url: model.url } },
    }),
  env,
});
const folder = join(shop.folder, "project");
mkdirSync(folder);
const git = (...args: string[]): void =>
  void execFileSync("git", ["-c", "user.name=t", "-c", "user.email=t@example.com", ...args], { cwd: folder });
git("init", "-q");
writeFileSync(join(folder, "README.md"), "# A program\nIt waters plants.\n");
writeFileSync(join(folder, "pump.js"), "export const on = () => open();\n// TODO: close it again\n");
writeFileSync(join(folder, "picture.png"), Buffer.from([137, 80, 78, 71, 0]));
git("add", ".");
git("commit", "-qm", "first");
writeFileSync(join(folder, "pump.js"), "export const on = () => { open(); };\n// TODO: close it again\n");

/** A copy of a template, as `graph new` makes it, with the folder granted. */
function fromTemplate(name: string, approvals = {}): string {
  cpSync(join(TEMPLATES, `${name}.mjs`), shop.graph(name, "export default 0;"));
  settings[name] = { folders: [{ path: folder, write: false }], approvals };
  return name;
}
checkLeftovers();
afterEach(() => model.reset());
afterAll(async () => {
  shop.close();
  await model.close();
});

test("folder report: files by type and size, the largest, TODO lines, the latest changes", async () => {
  const { result, outcome } = await shop.run(fromTemplate("folder-report"));
  expect(outcome.status).toBe("completed");
  expect(result).toMatchObject({
    folder,
    files: 3,
    complete: true,
    types: expect.arrayContaining([expect.objectContaining({ type: "js", files: 1 })]),
    todo_count: 1,
    todos: [{ file: "pump.js", line: 2, text: "// TODO: close it again" }],
    summary: expect.stringContaining("TODO lines: 1"),
  });
  const { largest } = result as { largest: { file: string }[] };
  expect(largest[0]?.file).toBe("pump.js");
  expect(JSON.stringify(result).length).toBeLessThan(5_000);
});

test("folder report: arguments that do not fit are named, each of them", async () => {
  const { outcome } = await shop.run(fromTemplate("folder-report"), { top: "many", depth: 3 });
  expect(outcome).toMatchObject({
    status: "failed",
    error: expect.stringMatching(/^The arguments do not fit the Graph: .*top: .*depth/),
  });
});

const FINDING = {
  file: "pump.js",
  line: 1,
  severity: "high",
  problem: "The valve stays open.",
  suggestion: "Close it.",
};
test("diff review: the diff goes to an agent, and comes back as findings, the worst first", async () => {
  model.answer = () => ({
    text: JSON.stringify({ summary: "Braces.", findings: [{ ...FINDING, severity: "low" }, FINDING] }),
  });
  const { result, outcome, events } = await shop.run(fromTemplate("review-diff", { shell: "allow" }), {
    focus: "valves",
  });
  expect(outcome).toMatchObject({ status: "completed", total_tokens: 100 });
  expect(result).toEqual({
    summary: "Braces.",
    findings: [FINDING, { ...FINDING, severity: "low" }],
    complete: true,
  });
  expect(JSON.stringify(model.requests[0]?.body)).toMatch(
    /Look above all at: valves.*\+export const on = \(\) => \{ open\(\); \};/,
  );
  expect(events).toContainEqual(
    expect.objectContaining({
      tool: "shell",
      request: `in ${folder}: git diff --no-color --no-ext-diff --no-textconv HEAD --`,
    }),
  );
});

test("diff review: without approval nothing is run; a base that is none is said; no changes is a result", async () => {
  expect((await shop.run(fromTemplate("review-diff"))).outcome.error).toMatch(/shell was not approved/);
  fromTemplate("review-diff", { shell: "allow" });
  expect((await shop.run("review-diff", { base: "no-such-branch" })).outcome.error).toMatch(
    /git diff no-such-branch failed: fatal/,
  );
  for (const base of ["--output=/tmp/x", "HEAD; touch x", "$(id)"])
    expect((await shop.run("review-diff", { base })).outcome.error).toMatch(/arguments do not fit/);
  git("commit", "-qam", "second");
  expect((await shop.run("review-diff")).result).toEqual({
    summary: "There are no changes against HEAD.",
    findings: [],
    complete: true,
  });
  git("reset", "-q", "--soft", "HEAD~1");
  expect(model.requests).toEqual([]);
});

test("diff review: on a claude-like command", async () => {
  const bin = join(shop.folder, "bin");
  mkdirSync(bin);
  writeFileSync(
    join(bin, "claude"),
    `#!/bin/sh\ngrep -q 'Review this diff' || exit 9\nprintf '%s' '${JSON.stringify({ type: "result", result: JSON.stringify({ summary: "Fine.", findings: [] }), usage: { input_tokens: 7, output_tokens: 3 } })}'\n`,
  );
  chmodSync(join(bin, "claude"), 0o755);
  env.PATH = `${bin}${delimiter}${process.env.PATH}`;
  const { result, outcome } = await shop.run(fromTemplate("review-diff", { shell: "allow" }), {
    model: "claude",
  });
  expect(outcome).toMatchObject({ status: "completed", total_tokens: 10 });
  expect(result).toEqual({ summary: "Fine.", findings: [], complete: true });
});

/** Answers a file's agent by whether it speaks of plants, and the one that sums up with what it got. */
const researcher: typeof model.answer = (request) => {
  const prompt = String(request.messages.at(-1)?.content);
  return prompt.includes("Notes from")
    ? { text: "It waters plants (README.md)." }
    : { text: JSON.stringify({ relevant: prompt.includes("plants."), notes: "It says: It waters plants." }) };
};

test("research: one agent a file, several at once, and one that sums up, with its sources", async () => {
  model.answer = researcher;
  const { result, outcome } = await shop.run(fromTemplate("research"), { question: "What does it do?" });
  expect(outcome).toMatchObject({ status: "completed", total_tokens: 300 });
  expect(result).toEqual({
    answer: "It waters plants (README.md).",
    sources: [{ file: "README.md", notes: "It says: It waters plants." }],
    complete: true,
  });
});

test("research: at the token ceiling the notes are given without a summary", async () => {
  model.answer = researcher;
  fromTemplate("research");
  const { result, outcome } = await shop.run("research", { concurrency: 2 }, { token_ceiling: 200 });
  expect(outcome.status).toBe("completed");
  expect(result).toMatchObject({
    answer: expect.stringMatching(/^The token ceiling of research is reached/),
    sources: [{ file: "README.md" }],
    complete: false,
  });
});
