import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { EXIT_CODES } from "../../relay-cli/exit-codes.ts";
import { Cli } from "../relay/support/cli.ts";
import { openTerminal, type PseudoTerminal } from "./support/pseudo-terminal.ts";
import { eventually } from "./support/workshop.ts";

// Each test starts processes; on a busy machine that alone takes seconds.
vi.setConfig({ testTimeout: 90_000 });

let cli: Cli;
let data: string;
const open: PseudoTerminal[] = [];
beforeEach(async () => {
  cli = new Cli();
  data = join(cli.folder, "data");
  mkdirSync(data);
  writeFileSync(
    join(cli.folder, "appends.mjs"),
    `export const meta = { name: "Appends" };
     export default async ({ args, tool }) => {
       const ends = [];
       for (const word of args.words)
         ends.push(await tool("shell", { command: "echo " + word + " >> out.txt" }).then(() => "done", (e) => e.code));
       return ends;
     };`,
  );
  const added = await cli.run(["graph", "add", join(cli.folder, "appends.mjs"), "--write-folder", data]);
  expect(added).toMatchObject({ code: 0 });
});
afterEach(async () => {
  for (const terminal of open.splice(0)) {
    terminal.kill();
    await terminal.ended;
  }
  await cli.remove();
});

const inTerminal = (words: readonly string[], options = {}): PseudoTerminal => {
  const terminal = openTerminal(cli.folder, words, options);
  open.push(terminal);
  return terminal;
};
const RUN = ["graph", "run", "appends"];
const words = (...all: string[]): string => JSON.stringify({ words: all });
const written = (): string =>
  existsSync(join(data, "out.txt")) ? readFileSync(join(data, "out.txt"), "utf8") : "";
const settingOfShell = (): string | undefined =>
  cli.store(
    (store) => store.settings.of(store.graphs.find("appends")?.graph_session_id ?? "").approvals?.shell,
  );
/** The questions that wait, as another terminal sees them. */
async function waiting(): Promise<{ question: number; graph: string; tool: string; request: string }[]> {
  const { stdout } = await cli.run(["approvals", "list", "--json"]);
  return JSON.parse(stdout).waiting;
}
async function firstQuestion(): Promise<number> {
  let found: { n: number }[] = [];
  await eventually(
    () => {
      found = cli.store((store) => store.approvals.open(Date.now()));
      return found.length > 0;
    },
    "a question is asked",
    15_000,
  );
  return found[0]?.n ?? 0;
}

describe("a question in the terminal of the run", () => {
  test("shows exactly what will be done; once is for once", async () => {
    const terminal = inTerminal([...RUN, words("a", "b")]);
    await terminal.shows(`appends asks to use shell`);
    await terminal.shows(`  | in ${data}: echo a >> out.txt`);
    await terminal.shows("[o/r/a/n]: ");
    expect(written()).toBe("");
    terminal.type("o\r");
    await terminal.shows(`  | in ${data}: echo b >> out.txt`);
    expect(written()).toBe("a\n");
    await terminal.shows("[o/r/a/n]: ");
    terminal.type("once\r");
    expect(await terminal.ended).toBe(0);
    expect(written()).toBe("a\nb\n");
    expect(settingOfShell()).toBeUndefined();
  });

  test("for this run: not asked again, until the next run", async () => {
    const terminal = inTerminal([...RUN, words("a", "b", "c")]);
    await terminal.shows("[o/r/a/n]: ");
    terminal.type("r\r");
    expect(await terminal.ended).toBe(0);
    expect(written()).toBe("a\nb\nc\n");
    const again = inTerminal([...RUN, words("d")]);
    await again.shows("[o/r/a/n]: ");
    again.type("n\r");
    expect(await again.ended).toBe(0);
    expect(written()).toBe("a\nb\nc\n");
  });

  test("always: not asked again, nor in any later run, until it is taken back", async () => {
    const terminal = inTerminal([...RUN, words("a", "b")]);
    await terminal.shows("[o/r/a/n]: ");
    terminal.type("always\r");
    expect(await terminal.ended).toBe(0);
    expect(settingOfShell()).toBe("allow");
    expect(await cli.run([...RUN, words("c")])).toMatchObject({
      code: 0,
      stdout: expect.stringContaining("done"),
    });
    expect(written()).toBe("a\nb\nc\n");
    await cli.run(["approvals", "set", "appends", "shell", "deny"]);
    expect((await cli.run([...RUN, words("d")])).stdout).toContain("tool_denied");
    expect(written()).toBe("a\nb\nc\n");
  });

  test("no: nothing is done and the Graph is told; what is no answer is asked again", async () => {
    const terminal = inTerminal([...RUN, words("a")]);
    await terminal.shows("[o/r/a/n]: ");
    terminal.type("maybe\r");
    await terminal.shows("[o/r/a/n]: ");
    terminal.type("N\r");
    await terminal.shows("approval_refused");
    expect(await terminal.ended).toBe(0);
    expect(written()).toBe("");
  });

  test("control characters in what is asked for are shown as codes: they cannot repaint the question", async () => {
    const terminal = inTerminal([...RUN, words("x\u001b[2J\u202e# y\rz")]);
    await terminal.shows("[o/r/a/n]: ");
    expect(terminal.shown()).toContain("x\\u001b[2J\\u202e# y\\u000dz");
    expect(terminal.shown()).not.toContain("\u001b[2J");
    terminal.type("n\r");
    await terminal.ended;
  });

  test("Ctrl-C while it waits stops the run; nothing is done", async () => {
    const terminal = inTerminal([...RUN, words("a")]);
    await terminal.shows("[o/r/a/n]: ");
    terminal.type("\u0003");
    expect(await terminal.ended).toBe(EXIT_CODES.graph_cancelled[0]);
    expect(written()).toBe("");
    expect(await waiting()).toEqual([]);
  });

  test("the history has each question with its answer", async () => {
    const terminal = inTerminal([...RUN, words("a", "b")]);
    await terminal.shows("[o/r/a/n]: ");
    terminal.type("o\r");
    await terminal.shows("[o/r/a/n]: ");
    terminal.type("n\r");
    await terminal.ended;
    const [entry] = cli.store((store) => store.history.list(1));
    const events = cli.store((store) => store.history.events(entry?.execution_id ?? "")).map((e) => e.event);
    expect(events.filter((e) => e.type === "tool_used")).toEqual([
      {
        type: "tool_used",
        tool: "shell",
        request: `in ${data}: echo a >> out.txt`,
        decision: "allowed",
        by: "owner, once",
      },
      {
        type: "tool_used",
        tool: "shell",
        request: `in ${data}: echo b >> out.txt`,
        decision: "refused",
        by: "shell was not approved (owner, refused).",
      },
    ]);
    expect(events).toContainEqual({
      type: "progress",
      progress: { state: "awaiting_approval", message: `shell: in ${data}: echo a >> out.txt` },
    });
  });
});

describe("a question answered from a second terminal", () => {
  test("of a run without a terminal: it says how, and the answer reaches it", async () => {
    const run = cli.spawn([...RUN, words("a", "b")]);
    await run.says("Answer with `graph-relay approvals answer");
    expect(await waiting()).toEqual([
      expect.objectContaining({ graph: "appends", tool: "shell", request: `in ${data}: echo a >> out.txt` }),
    ]);
    const n = String(await firstQuestion());
    expect(await cli.run(["approvals", "answer", n, "run"])).toMatchObject({ code: 0 });
    expect(await run.ended).toMatchObject({ code: 0 });
    expect(written()).toBe("a\nb\n");
    expect(await waiting()).toEqual([]);
  });

  test("of a run that asks in its own terminal too: the first answer counts, and the question there goes", async () => {
    const terminal = inTerminal([...RUN, words("a")]);
    await terminal.shows("[o/r/a/n]: ");
    const n = String(await firstQuestion());
    const answers = await Promise.all(
      ["once", "no", "always"].map((answer) => cli.run(["approvals", "answer", n, answer])),
    );
    expect(answers.filter((a) => a.code === 0)).toHaveLength(1);
    expect(await terminal.ended).toBe(0);
  });

  test("by going through those that wait, at a terminal", async () => {
    const run = cli.spawn([...RUN, words("a")]);
    await firstQuestion();
    const second = inTerminal(["approvals", "answer"]);
    await second.shows(`  | in ${data}: echo a >> out.txt`);
    await second.shows("[o/r/a/n]: ");
    second.type("o\r");
    expect(await second.ended).toBe(0);
    expect(await run.ended).toMatchObject({ code: 0 });
    expect(written()).toBe("a\n");
  });

  test("a question whose asker was killed is not waited for, and cannot be answered", async () => {
    const run = cli.spawn([...RUN, words("a")]);
    const n = await firstQuestion();
    run.child.kill("SIGKILL");
    await run.ended;
    const later = Date.now() + 10_000;
    expect(cli.store((store) => store.approvals.open(later))).toEqual([]);
    expect(cli.store((store) => store.approvals.answer(n, "once", "owner", later))).toBe(false);
  });

  test.each([
    [
      "a question that does not wait",
      ["approvals", "answer", "999", "once"],
      "usage",
      "No question 999 waits for an answer. None does.",
    ],
    [
      "a setting that is none",
      ["approvals", "set", "appends", "shell", "perhaps"],
      "usage",
      "A setting is allow, ask, deny, default",
    ],
    [
      "a tool that is none",
      ["approvals", "set", "appends", "fly", "allow"],
      "usage",
      'There is no tool "fly"',
    ],
    [
      "a Graph that is none",
      ["approvals", "set", "nobody", "shell", "allow"],
      "usage",
      "There is no Graph called",
    ],
  ] as const)("%s is said, with its exit code", async (_, line, exit, text) => {
    const { code, stderr, stdout } = await cli.run(line);
    expect(code).toBe(EXIT_CODES[exit][0]);
    expect(stderr).toContain(text);
    expect(stdout).toBe("");
  });
});
