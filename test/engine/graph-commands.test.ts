import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { EXIT_CODES } from "../../relay-cli/exit-codes.ts";
import { Cli, MAIN } from "../relay/support/cli.ts";
import { startModelServer } from "./support/model-server.ts";
import { openTerminal } from "./support/pseudo-terminal.ts";

// Each test starts processes; on a busy machine that alone takes seconds.
vi.setConfig({ testTimeout: 90_000 });

let cli: Cli;
let folder: string;
beforeEach(() => {
  cli = new Cli();
  folder = join(cli.folder, "work");
  mkdirSync(folder);
});
afterEach(() => cli.remove());
const usage = EXIT_CODES.usage[0];

/** `graph new` writes into the current folder, so it is run there. */
const inFolder = (...words: string[]) =>
  spawnSync(process.execPath, [MAIN, "--state", cli.folder, ...words], {
    cwd: folder,
    encoding: "utf8",
    maxBuffer: 2 ** 26,
  });

describe("graph new", () => {
  test("writes a Graph from a template, saves it, and it runs as it is", async () => {
    const made = inFolder("graph", "new", "my-report", "--folder", ".");
    expect(made).toMatchObject({ status: 0, stdout: "" });
    expect(made.stderr).toContain("graph-relay graph run my-report");
    const ran = await cli.run(["graph", "run", "my-report", '{"top": 1}']);
    expect(ran.code).toBe(0);
    expect(JSON.parse(ran.stdout)).toMatchObject({ folder, files: 1, largest: [{ file: "my-report.mjs" }] });
  });

  test("leaves alone what is there, and names the templates", () => {
    writeFileSync(join(folder, "mine.mjs"), "precious");
    const refused = inFolder("graph", "new", "mine");
    expect(refused).toMatchObject({ status: usage, stderr: expect.stringContaining("was left as it is") });
    expect(readFileSync(join(folder, "mine.mjs"), "utf8")).toBe("precious");
    expect(inFolder("graph", "new", "x", "--template", "nope").stderr).toContain(
      "There are: folder-report, research, review-diff.",
    );
    expect(inFolder("graph", "new", "../x")).toMatchObject({ status: usage });
    expect(existsSync(join(cli.folder, "x.mjs"))).toBe(false);
  });

  test.each(["review-diff", "research"])("the template %s is saved with its arguments", (template) => {
    expect(inFolder("graph", "new", template, "--template", template, "--folder", ".")).toMatchObject({
      status: 0,
    });
    const [graph] = cli.store((store) => store.graphs.list());
    expect(JSON.parse(graph?.arguments_schema ?? "")).toMatchObject({
      type: "object",
      additionalProperties: false,
    });
  });
});

describe("what a Graph may do", () => {
  test("folders are granted, kept in order, and taken back", async () => {
    inFolder("graph", "new", "report");
    mkdirSync(join(folder, "b"));
    mkdirSync(join(folder, "a"));
    expect((await cli.run(["graph", "run", "report"])).stderr).toContain(
      "No folder is granted to this Graph",
    );
    for (const name of ["b", "a"]) await cli.run(["graph", "grant", "report", join(folder, name)]);
    await cli.run(["graph", "grant", "report", join(folder, "b"), "--write"]);
    const shown = JSON.parse((await cli.run(["graph", "show", "report", "--json"])).stdout);
    expect(shown.settings.folders).toEqual([
      { path: join(folder, "b"), write: true },
      { path: join(folder, "a"), write: false },
    ]);
    expect(await cli.run(["graph", "revoke", "report", join(folder, "b")])).toMatchObject({ code: 0 });
    expect(JSON.parse((await cli.run(["graph", "run", "report"])).stdout)).toMatchObject({
      folder: join(folder, "a"),
    });
    expect(await cli.run(["graph", "revoke", "report", "/nowhere"])).toMatchObject({ code: usage });
    expect(await cli.run(["graph", "grant", "report", "/nowhere"])).toMatchObject({ code: usage });
  });

  test("limits are set within their ranges, and hold", async () => {
    writeFileSync(
      join(folder, "slow.mjs"),
      "export default async () => { await new Promise((r) => setTimeout(r, 60_000)); };",
    );
    await cli.run(["graph", "add", join(folder, "slow.mjs")]);
    expect(
      await cli.run(["graph", "set", "slow", "--max-seconds", "1", "--tokens", "none", "--memory", "128"]),
    ).toMatchObject({ code: 0 });
    expect(await cli.run(["graph", "run", "slow"])).toMatchObject({
      code: EXIT_CODES.graph_failed[0],
      stderr: expect.stringContaining("ran for more than its 1 s"),
    });
    const { settings } = JSON.parse((await cli.run(["graph", "show", "slow", "--json"])).stdout);
    expect(settings).toMatchObject({
      token_ceiling: null,
      memory_megabytes: 128,
      max_run_seconds: 1,
      trusted: false,
    });
    for (const wrong of [
      ["--memory", "1"],
      ["--tokens", "-5"],
      ["--approval-seconds", "1"],
      ["--trusted", "maybe"],
      [],
    ])
      expect(await cli.run(["graph", "set", "slow", ...wrong])).toMatchObject({ code: usage });
  });

  test("a Graph whose file no longer loads is shown as such", async () => {
    inFolder("graph", "new", "report");
    writeFileSync(join(folder, "report.mjs"), "export default async ( => 1;");
    const { code, stdout } = await cli.run(["graph", "show", "report"]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/File: .*does not load: SyntaxError/);
    expect(await cli.run(["graph", "run", "report"])).toMatchObject({ code: EXIT_CODES.graph_failed[0] });
  });
});

describe("configuration", () => {
  const configure = (text: string): void => writeFileSync(join(cli.folder, "config.json"), text);
  test.each([
    ["is no JSON", "{ nope", /config\.json is no JSON: .*left as it is/],
    ["has a field that is none", '{"providres": {}}', /config\.json does not fit: .*providres/],
    ["has a wrong value", '{"history": {"keep_days": -1}}', /config\.json does not fit: history\.keep_days/],
    [
      "has a provider that is none",
      '{"providers": {"x": {"kind": "openai-compatible", "base_url": "ftp://x"}}}',
      /providers\.x\.base_url/,
    ],
  ])("that %s is said with its path, and left as it is", async (_, text, message) => {
    configure(text);
    inFolder("graph", "new", "report", "--folder", ".");
    const { code, stderr } = await cli.run(["graph", "run", "report"]);
    expect(code).toBe(EXIT_CODES.state_unusable[0]);
    expect(stderr).toMatch(message);
    expect(readFileSync(join(cli.folder, "config.json"), "utf8")).toBe(text);
  });

  test("models of the configuration are used, and their use is told while it runs and in the history", async () => {
    const server = await startModelServer(() => ({ text: "Hello.", afterMilliseconds: 100 }));
    configure(
      JSON.stringify({
        default_model: "local/small",
        providers: {
          local: {
            kind: "openai-compatible",
            base_url: server.url,
            prices: { "*": { input_per_million: 10, output_per_million: 10 } },
          },
        },
      }),
    );
    writeFileSync(
      join(folder, "asks.mjs"),
      "export default async ({ agent, progress }) => { progress('Asking'); return (await agent('Hi')).text; };",
    );
    await cli.run(["graph", "add", join(folder, "asks.mjs")]);
    const plain = await cli.run(["graph", "run", "asks"]);
    expect(plain).toMatchObject({ code: 0, stdout: '"Hello."\n' });
    expect(plain.stderr).toMatch(/^asks: agent 1 \(local\/small\) finished, 100 tokens, \d\.\d s$/m);

    const terminal = openTerminal(cli.folder, ["graph", "run", "asks"], { columns: 40 });
    expect(await terminal.ended).toBe(0);
    expect(terminal.shown()).toMatch(/asks 0:00 · 1 agent \(local\/small\) · As…/);

    const id = JSON.parse((await cli.run(["history", "list", "--json"])).stdout)[0].execution_id;
    const record = JSON.parse((await cli.run(["history", "show", id])).stdout);
    expect(record).toMatchObject({
      slug: "asks",
      status: "completed",
      result: "Hello.",
      arguments: {},
      total_tokens: 100,
      reported_cost: 0.001,
    });
    expect(record.events).toContainEqual(
      expect.objectContaining({ type: "agent_started", prompt: "Hi", model: "local/small" }),
    );
    expect(record.events).toContainEqual(
      expect.objectContaining({
        type: "agent_finished",
        answer: "Hello.",
        input_tokens: 60,
        output_tokens: 40,
      }),
    );
    expect((await cli.run(["history", "show", id, "--log"])).stdout).toMatch(
      /agent 1 \(local\/small\) is asked: Hi\n.*agent 1 answered: Hello\./,
    );
    await server.close();
  });
});

describe("history", () => {
  test("keeps a result in full, whatever its size, found by its execution's id", async () => {
    writeFileSync(join(folder, "large.mjs"), "export default async () => '🏔x'.repeat(500_000);");
    await cli.run(["graph", "add", join(folder, "large.mjs")]);
    expect((await cli.run(["graph", "run", "large"])).code).toBe(0);
    const [entry] = cli.store((store) => store.history.list(1));
    const record = JSON.parse(inFolder("history", "show", entry?.execution_id ?? "").stdout);
    expect(record.result === "🏔x".repeat(500_000)).toBe(true);
  });

  test("says of a local run that was killed that it was, and of a live one that it runs", async () => {
    writeFileSync(
      join(folder, "waits.mjs"),
      'export default async ({ log }) => { log("here"); await new Promise((done) => setTimeout(done, 60_000)); };',
    );
    await cli.run(["graph", "add", join(folder, "waits.mjs")]);
    const run = cli.spawn(["graph", "run", "waits"]);
    await run.says("here");
    const shown = () => JSON.parse(inFolder("history", "list", "--limit", "1", "--json").stdout)[0];
    expect(shown()).toMatchObject({ slug: "waits", status: "running", error: null });
    run.child.kill("SIGKILL");
    await run.ended;
    expect(shown()).toMatchObject({
      slug: "waits",
      status: "failed",
      error: "The command was killed while the Graph was running",
    });
  });

  test("is pruned by age and by size, never what still runs", async () => {
    const day = 86_400_000;
    const now = Date.now();
    cli.store(({ history }) => {
      for (let n = 0; n < 10; n++) {
        const execution_id = `00000000-0000-4000-8000-${String(n).padStart(12, "0")}`;
        history.begin(
          {
            execution_id,
            channel: "graph:local:x",
            command_id: null,
            project_id: null,
            graph_session_id: null,
            slug: "x",
            agent_name: null,
            arguments_json: "{}",
            started_at: now - (10 - n) * day,
          },
          process.pid,
        );
        history.addEvents(execution_id, [{ at: 0, event: { type: "log", line: "x".repeat(100_000) } }]);
        if (n === 3) continue; // it never ended
        history.finish({
          execution_id,
          finished_at: now - (10 - n) * day,
          outcome: {
            status: "completed",
            result_json: `"${"y".repeat(200_000)}"`,
            total_tokens: null,
            reported_cost: null,
          },
        });
      }
    });
    const left = () =>
      cli.store(({ history }) => history.list(100).map((e) => Number(e.execution_id.slice(-2))));
    expect(await cli.run(["history", "prune", "--days", "8.5"])).toMatchObject({
      code: 0,
      stderr: "2 runs forgotten.\n",
    });
    expect(left()).toEqual([9, 8, 7, 6, 5, 4, 3, 2]);
    expect((await cli.run(["history", "prune", "--megabytes", "1"])).stderr).toBe("4 runs forgotten.\n");
    expect(left()).toEqual([9, 8, 7, 3]);
    expect(cli.store(({ history }) => history.events("00000000-0000-4000-8000-000000000004"))).toEqual([]);
    expect((await cli.run(["history", "prune", "--days", "many"])).code).toBe(usage);
  });
});

describe("listings of Graphs, approvals and history", () => {
  const LISTINGS = [
    "graph list",
    "graph list --json",
    "graph show report",
    "graph show report --json",
    "approvals list",
    "approvals list --json",
    "history list",
    "history list --json",
  ];
  test("may be cut off by `| head -1`, twenty times: exit 0 and nothing on stderr", () => {
    inFolder("graph", "new", "report", "--folder", ".");
    for (let n = 0; n < 200; n++)
      cli.store((store) =>
        store.settings.setApproval(
          store.graphs.find("report")?.graph_session_id ?? "",
          `server__tool-${n}`,
          "deny",
        ),
      );
    const run = (words: string): string =>
      `node ${MAIN} --state ${cli.folder} ${words} | head -1 > /dev/null; echo "\${PIPESTATUS[0]}"`;
    const script = [
      ...LISTINGS.filter((l) => l !== "approvals list").map(run),
      ...Array(12).fill(run("approvals list --json")),
    ].join("\n");
    const { stdout, stderr } = spawnSync("bash", ["-c", script], {
      encoding: "utf8",
      env: { ...process.env, PATH: `${join(process.execPath, "..")}:${process.env.PATH}` },
    });
    expect(stderr.replace("Nothing has run yet.\n", "")).toBe("");
    expect(new Set(stdout.trim().split("\n"))).toEqual(new Set(["0"]));
  });

  test("with --json are JSON alone on stdout", async () => {
    inFolder("graph", "new", "report", "--folder", ".");
    for (const words of LISTINGS.filter((one) => one.endsWith("--json"))) {
      const { code, stdout } = await cli.run(words.split(" "), { env: { FORCE_COLOR: "1" } });
      expect(code).toBe(0);
      expect(() => JSON.parse(stdout)).not.toThrow();
    }
  });
});
