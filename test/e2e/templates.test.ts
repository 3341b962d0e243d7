import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { RunOutput } from "../../src/protocol/tools.ts";
import { type ModelServer, startModelServer } from "../engine/support/model-server.ts";
import { Cli } from "../relay/support/cli.ts";
import { startTestEndpoint, type TestEndpoint } from "../support/endpoint.ts";
import { type Agent, OFFICIAL_CLIENTS } from "../support/official-clients.ts";

// Each template as its owner makes it with `graph new`, run by an official MCP client through the endpoint.

let endpoint: TestEndpoint;
let cli: Cli;
let model: ModelServer;
let agent: Agent;
let scratch: string;
let folder: string;

async function ok(words: readonly string[], options: { stdin?: string; cwd?: string } = {}): Promise<void> {
  const { code, stderr } = await cli.run(words, options);
  expect(code, stderr).toBe(0);
}

beforeAll(async () => {
  scratch = mkdtempSync(join(tmpdir(), "graph-relay-templates-"));
  folder = join(scratch, "project");
  mkdirSync(folder);
  const git = (...args: string[]) =>
    execFileSync("git", ["-c", "user.name=t", "-c", "user.email=t@example.com", ...args], { cwd: folder });
  git("init", "-q");
  writeFileSync(join(folder, "README.md"), "# A program\nIt waters plants.\n");
  writeFileSync(join(folder, "pump.js"), "export const on = () => open();\n");
  git("add", ".");
  git("commit", "-qm", "first");
  writeFileSync(join(folder, "pump.js"), "export const on = () => { open(); };\n");

  model = await startModelServer();
  endpoint = await startTestEndpoint();
  cli = new Cli();
  await ok(["login", endpoint.url, "--code"], { stdin: await endpoint.owner.enrolmentCode() });
  const like = join(scratch, "claude-like");
  writeFileSync(
    like,
    '#!/bin/sh\ncat >/dev/null\nprintf "%s" \'{"summary":"By a command.","findings":[]}\'\n',
  );
  chmodSync(like, 0o700);
  writeFileSync(
    join(cli.folder, "config.json"),
    JSON.stringify({
      default_model: "local/small",
      providers: {
        local: { kind: "openai-compatible", base_url: model.url },
        like: { kind: "command", command: [like, "{model}"], model: "any" },
      },
    }),
    { mode: 0o600 },
  );
  const graphs = join(scratch, "graphs");
  mkdirSync(graphs);
  for (const template of ["folder-report", "review-diff", "research"]) {
    const words = ["graph", "new", `my-${template}`, "--template", template, "--folder", folder];
    await ok(words, { cwd: graphs });
    await ok(["share", `my-${template}`]);
  }
  await ok(["approvals", "set", "my-review-diff", "shell", "allow"]);
  const relay = cli.spawn(["start"]);
  await relay.says("now sees 3 Graph(s)");

  const [, connect] = OFFICIAL_CLIENTS[2] ?? [];
  if (!connect) throw new Error("There is no such client");
  agent = await connect({
    url: endpoint.url,
    redirectUrl: "http://127.0.0.1:33418/callback",
    consent: async (page) => new URL(await endpoint.owner.approve(page.href)),
  });
}, 120_000);

afterAll(async () => {
  await agent?.close();
  await cli?.remove();
  await endpoint?.stop();
  await model?.close();
  rmSync(scratch, { recursive: true, force: true });
});

/** Runs a Graph as an agent does: lists, queues, waits. */
async function runGraph(slug: string, args: object): Promise<RunOutput> {
  const { structuredContent: list } = await agent.call("list_graph_sessions", {});
  const sessions = (list as { sessions: { slug: string; graph_session_id: string }[] }).sessions;
  const session = sessions.find((one) => one.slug === slug);
  if (!session) throw new Error(`${slug} is not listed`);
  const ticket = await agent.call("run_graph_session", {
    graph_session_id: session.graph_session_id,
    arguments: args,
    idempotency_key: randomUUID(),
  });
  let run = ticket.structuredContent as unknown as RunOutput;
  while (run.status === "queued" || run.status === "running")
    run = (await agent.call("get_graph_run", { command_id: run.command_id }))
      .structuredContent as unknown as RunOutput;
  return run;
}

describe("an MCP client runs", () => {
  it("the folder report, and gets its summary", async () => {
    const run = await runGraph("my-folder-report", { folder });
    expect(run).toMatchObject({ status: "completed", result: { files: 2, complete: true } });
  });

  it("the diff review, by an agent on an OpenAI-compatible server", async () => {
    const finding = { file: "pump.js", line: 1, severity: "high", problem: "Open.", suggestion: "Close." };
    model.answer = () => ({ text: JSON.stringify({ summary: "Braces.", findings: [finding] }) });
    const run = await runGraph("my-review-diff", { folder });
    expect(run).toMatchObject({
      status: "completed",
      result: { summary: "Braces.", findings: [finding] },
      total_tokens: 100,
    });
    expect(JSON.stringify(model.requests[0]?.body)).toContain("+export const on = () => { open(); };");
  });

  it("the diff review, by a local command in place of a model", async () => {
    const run = await runGraph("my-review-diff", { folder, model: "like/any" });
    expect(run).toMatchObject({ status: "completed", result: { summary: "By a command.", findings: [] } });
  });

  it("the research, with one agent a file and one that sums up", async () => {
    model.reset();
    model.answer = ({ response_format }) =>
      response_format
        ? { text: JSON.stringify({ relevant: true, notes: "It waters plants." }) }
        : { text: "It waters plants (README.md)." };
    const run = await runGraph("my-research", { question: "What does it do?", folder });
    expect(run).toMatchObject({ status: "completed", result: { answer: "It waters plants (README.md)." } });
    expect(run.total_tokens).toBe(100 * model.requests.length);
    expect(model.requests.length).toBe(3);
  });

  it("nothing with arguments that do not fit the Graph: each fault is named and nothing is queued", async () => {
    const { structuredContent } = await agent.call("list_graph_sessions", {});
    const { sessions } = structuredContent as { sessions: { slug: string; graph_session_id: string }[] };
    const answer = await agent.call("run_graph_session", {
      graph_session_id: sessions.find((one) => one.slug === "my-folder-report")?.graph_session_id,
      arguments: { top: "many", depth: 3 },
      idempotency_key: randomUUID(),
    });
    expect(answer.isError).toBe(true);
    expect(answer.content[0]?.text).toMatch(/top/);
    expect(answer.content[0]?.text).toMatch(/depth/);
  });
});
