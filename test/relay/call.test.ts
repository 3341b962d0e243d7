import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type AgentTools, isPassing, ToolRefusal } from "../../relay-cli/commands/agent-tools.ts";
import { runFollower } from "../../relay-cli/commands/call.ts";
import { type Context, createContext } from "../../relay-cli/commands/context.ts";

const SESSION = `gs_${"a".repeat(32)}`;
const SERVER = "https://relay.example";

let folder: string;
let context: Context;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "graph-relay-call-"));
  context = createContext(folder);
});
afterEach(() => {
  context.close();
  rmSync(folder, { recursive: true });
});

/** An endpoint that gives each new key a run of its own, and fails these calls of `get_graph_run`, in turn. */
function endpoint(failures: Error[] = []) {
  const keys: string[] = [];
  const run = (status: string, key: string) => ({
    command_id: `run-${keys.indexOf(key)}`,
    project_id: "prj_000000000000",
    graph_session_id: SESSION,
    status,
    cancel_requested: false,
    desktop: { online: true, last_seen_at: null },
    queued_at: "2026-01-01T00:00:00.000Z",
    next_step: "wait",
  });
  const tools: AgentTools = {
    async call(name, args) {
      if (name === "run_graph_session") {
        const key = String(args.idempotency_key);
        if (!keys.includes(key)) keys.push(key);
        return run("queued", key);
      }
      const failure = failures.shift();
      if (failure) throw failure;
      return run("completed", keys.at(-1) ?? "");
    },
    async close() {},
  };
  return { keys, tools };
}

test("a sign-in that ends in the middle of the wait costs no second run", async () => {
  const { keys, tools } = endpoint([new Error("the sign-in has ended")]);
  const followRun = runFollower(context, SERVER, SESSION, {});
  await expect(followRun(tools)).rejects.toThrow("the sign-in has ended");
  expect(await followRun(tools)).toMatchObject({ command_id: "run-0", status: "completed" });
  expect(keys).toHaveLength(1);
});

test("the next same call, made with the last one's ticket in hand, is another run", async () => {
  const { keys, tools } = endpoint();
  for (const command_id of ["run-0", "run-1"])
    expect(await runFollower(context, SERVER, SESSION, {})(tools)).toMatchObject({ command_id });
  expect(new Set(keys).size).toBe(2);
});

test.each([
  ["a network error", new TypeError("fetch failed"), true],
  ["a timeout", { code: "REQUEST_TIMEOUT" }, true],
  ["a busy server", { data: { status: 503 } }, true],
  ["too many calls", { status: 429 }, true],
  ["a failure inside the server", { code: -32603 }, true],
  ["input that does not fit", { code: -32602 }, false],
  ["a sign-in that is needed", { status: 401 }, false],
  ["a refusal", new ToolRefusal("failed", "no"), false],
])("%s is worth another try, or not", (_, error, again) => {
  expect(isPassing(error)).toBe(again);
});

test("a refusal ends the intent, and a lost answer does not", async () => {
  const { keys, tools } = endpoint();
  const failing = (error: Error): AgentTools => ({
    ...tools,
    async call(name, args) {
      await tools.call(name, args);
      throw error;
    },
  });
  const ask = (used: AgentTools) => runFollower(context, SERVER, SESSION, {})(used);
  await expect(ask(failing(new Error("no answer")))).rejects.toThrow("no answer");
  await expect(ask(failing(new ToolRefusal("failed", "full")))).rejects.toThrow("full");
  expect(keys).toHaveLength(1);
  await ask(tools);
  expect(keys).toHaveLength(2);
});
