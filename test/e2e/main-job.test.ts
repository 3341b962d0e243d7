import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ended, run } from "../../scripts/lib/processes.ts";
import { freePort } from "../support/endpoint.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const BOOTSTRAP = [join(ROOT, "scripts/bootstrap.mjs"), "scripts/start.ts"];

/** `npm start` as npm runs it, on a state folder and a folder to report on. */
const start = (args: readonly string[], port: number): ChildProcess =>
  spawn(process.execPath, [...BOOTSTRAP, ...args], {
    cwd: ROOT,
    env: { ...process.env, PORT: String(port) },
    stdio: ["ignore", "pipe", "pipe"],
    detached: true,
  });

interface Ended {
  code: number | null;
  stdout: string;
  stderr: string;
}

async function outcome(child: ChildProcess): Promise<Ended> {
  const said = { stdout: "", stderr: "" };
  child.stdout?.on("data", (text) => {
    said.stdout += text;
  });
  child.stderr?.on("data", (text) => {
    said.stderr += text;
  });
  await ended(child);
  return { code: child.exitCode, ...said };
}

let scratch: string;
let state: string;
let folder: string;

beforeAll(() => {
  scratch = mkdtempSync(join(tmpdir(), "graph-relay-start-"));
  state = join(scratch, "state");
  folder = join(scratch, "reported");
  mkdirSync(folder);
  writeFileSync(join(folder, "largest.ts"), `${"x".repeat(5_000)}\n// TODO: water the plants\n`);
  writeFileSync(join(folder, "notes.md"), "hello\n");
});
afterAll(async () => {
  for (const group of await groupsOf(scratch)) process.kill(-group, "SIGKILL");
  rmSync(scratch, { recursive: true, force: true, maxRetries: 5 });
});

/** The process groups of every process whose command line names the path. */
async function groupsOf(path: string): Promise<Set<number>> {
  const list = await run("ps", ["-eo", "pgid=,args="]);
  const named = list.split("\n").filter((line) => line.includes(path));
  return new Set(named.map((line) => Number.parseInt(line, 10)));
}

/** The runs that the relay's history on this state folder holds. */
async function history(): Promise<{ execution_id: string; status: string }[]> {
  const main = join(ROOT, "relay-cli/main.ts");
  return JSON.parse(
    await run(process.execPath, [main, "--state", join(state, "relay"), "history", "--json"]),
  );
}

describe("npm start", () => {
  it("runs the main job once, prints the report and exits with 0", async () => {
    const port = await freePort();
    const first = await outcome(start(["--once", "--state", state, "--folder", folder], port));
    expect(first.stderr).toContain("Pairing this machine");
    expect(first.code, first.stderr).toBe(0);
    expect(first.stdout).toContain("get_graph_run answered: completed");
    expect(first.stdout).toContain("2 files");
    expect(first.stdout).toContain("largest.ts");
    expect(first.stdout).toContain("TODO: water the plants");
    expect(await groupsOf(state)).toEqual(new Set());

    // Up again on the same state, and killed with everything it consists of.
    const second = start(["--state", state, "--folder", folder], port);
    let said = "";
    await new Promise<void>((up, failed) => {
      second.stderr?.on("data", (text) => {
        said += text;
        if (said.includes("The endpoint is up.")) up();
      });
      second.once("close", () => failed(new Error(`npm start ended by itself:\n${said}`)));
    });
    const [account] = /claude mcp add --transport http graph-relay http:\S+\/mcp/.exec(said) ?? [];
    expect(account).toContain(`:${port}/mcp`);
    expect(said).toMatch(/\/sign-in#\S+/);
    const runsBefore = await history();
    expect(runsBefore.map((one) => one.status)).toEqual(["completed", "completed"]);
    for (const group of await groupsOf(state)) process.kill(-group, "SIGKILL");
    await ended(second);

    const third = await outcome(start(["--once", "--state", state, "--folder", folder], port));
    expect(third.code, third.stderr).toBe(0);
    const executions = (await history()).map((one) => one.execution_id);
    for (const { execution_id } of runsBefore) expect(executions).toContain(execution_id);
    expect(executions).toHaveLength(3);
  }, 240_000);

  it("says that a port is taken, which, and what to do, with exit code 2", async () => {
    const port = await freePort();
    const server = createServer().listen(port, "127.0.0.1");
    const end = await outcome(start(["--once", "--state", state, "--folder", folder], port));
    server.close();
    expect(end.code).toBe(2);
    expect(end.stderr).toContain(`Port ${port} is taken by another program.`);
    expect(end.stderr).toContain("PORT=");
  });

  it.each([
    [["--folder", "/no/such/folder"], "8787", "--folder: /no/such/folder is not a folder."],
    [["--ones"], "8787", "--once"],
    [[], "eighty", 'PORT: "eighty" is no port.'],
  ])("refuses %j with PORT=%s and says what is wrong", async (args, port, says) => {
    const child = spawn(process.execPath, [...BOOTSTRAP, "--once", ...args], {
      cwd: ROOT,
      env: { ...process.env, PORT: port },
    });
    const end = await outcome(child);
    expect(end.code).toBe(2);
    expect(end.stderr).toContain(says);
  });
});
