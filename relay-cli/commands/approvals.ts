import type { Command } from "commander";
import { BUILT_IN_TOOLS } from "../engine/index.ts";
import { CommandError, type ExitName } from "../exit-codes.ts";
import { printable } from "../relay/failure.ts";
import type { Question } from "../store/contract.ts";
import { askAnswer, showQuestion, typedAnswer } from "./approval-broker.ts";
import { type Context, namedGraph } from "./context.ts";
import type { RunCommand } from "./program.ts";
import { visible } from "./safe-text.ts";
import { columns } from "./terminal.ts";

const SETTINGS = ["allow", "ask", "deny", "default"] as const;
type Setting = (typeof SETTINGS)[number];

export function addApprovals(program: Command, run: RunCommand): void {
  const approvals = program
    .command("approvals")
    .description("what your Graphs may do, and what they ask you");
  approvals
    .command("list [graph]", { isDefault: true })
    .description("the questions that wait for an answer, and the settings of each Graph")
    .option("--json", "as JSON, the requests in full")
    .action((graph: string | undefined, options: { json?: boolean }) =>
      run((context) => list(context, graph, options.json === true)),
    );
  approvals
    .command("set <graph> <tool> <setting>")
    .description("set a tool to allow, ask, deny or default for one Graph; server__* is all of an MCP server")
    .action((graph: string, tool: string, setting: string) =>
      run((context) => set(context, graph, tool, setting)),
    );
  approvals
    .command("answer [question] [answer]")
    .description("answer a question: once, run, always or no; without a number, go through those that wait")
    .action((question?: string, answer?: string) => run((context) => answerOne(context, question, answer)));
}

const view = ({ n, asked_at, expires_at, ...question }: Question) => ({
  question: n,
  ...question,
  asked_at: new Date(asked_at).toISOString(),
  expires_at: new Date(expires_at).toISOString(),
});

async function list(context: Context, name: string | undefined, json: boolean): Promise<ExitName> {
  const { store, terminal } = context;
  const graphs = name === undefined ? store.graphs.list() : [namedGraph(store, name)];
  const waiting = store.approvals
    .open(Date.now())
    .filter((question) => name === undefined || graphs.some((graph) => graph.slug === question.graph));
  const settings = graphs.map((graph) => {
    const set = store.settings.of(graph.graph_session_id).approvals ?? {};
    const names = new Set([...BUILT_IN_TOOLS.map((tool) => tool.name), ...Object.keys(set)]);
    return {
      graph: graph.slug,
      tools: [...names].map((tool) => {
        const own = Object.hasOwn(set, tool) ? set[tool] : undefined;
        return {
          tool,
          setting: own ?? BUILT_IN_TOOLS.find((one) => one.name === tool)?.defaultApproval ?? "ask",
          is_default: own === undefined,
        };
      }),
    };
  });
  if (json) {
    terminal.json({ waiting: waiting.map(view), settings });
    return "done";
  }
  for (const line of waiting.length === 0
    ? ["No question waits for an answer."]
    : columns([
        ["QUESTION", "GRAPH", "TOOL", "REQUEST"],
        ...waiting.map((q) => [
          String(q.n),
          q.graph,
          q.tool,
          printable(visible(q.request).replaceAll("\n", " ⏎ ")),
        ]),
      ]))
    waiting.length === 0 ? terminal.say(line) : terminal.data(line);
  for (const line of columns([
    ["GRAPH", "TOOL", "SETTING"],
    ...settings.flatMap(({ graph, tools }) =>
      tools.map(({ tool, setting, is_default }) => [
        graph,
        tool,
        `${setting}${is_default ? " (default)" : ""}`,
      ]),
    ),
  ]))
    terminal.data(line);
  return "done";
}

async function set(context: Context, name: string, tool: string, setting: string): Promise<ExitName> {
  const { store, terminal } = context;
  const { graph_session_id, slug } = namedGraph(store, name);
  if (!SETTINGS.includes(setting as Setting))
    throw new CommandError(
      "usage",
      `A setting is ${SETTINGS.join(", ")}; ${JSON.stringify(setting)} is none.`,
    );
  const isBuiltIn = BUILT_IN_TOOLS.some((one) => one.name === tool);
  if (!isBuiltIn && !/^[a-z0-9][a-z0-9-]*__(?:\*|[\w.-]+)$/.test(tool))
    throw new CommandError(
      "usage",
      `There is no tool ${JSON.stringify(tool)}. There are ${BUILT_IN_TOOLS.map((one) => one.name).join(", ")}, and server__tool or server__* for an MCP server.`,
    );
  if (setting === "default") store.settings.clearApproval(graph_session_id, tool);
  else store.settings.setApproval(graph_session_id, tool, setting as Exclude<Setting, "default">);
  terminal.say(`${tool} of ${slug}: ${setting}. It holds from the next use on.`);
  return "done";
}

async function answerOne(
  context: Context,
  number: string | undefined,
  typed: string | undefined,
): Promise<ExitName> {
  const { store, terminal } = context;
  const open = store.approvals.open(Date.now());
  const wanted = number === undefined ? open : open.filter((question) => String(question.n) === number);
  if (number !== undefined && wanted.length === 0)
    throw new CommandError(
      "usage",
      `No question ${printable(number)} waits for an answer. ${open.length === 0 ? "None does." : `Waiting: ${open.map((q) => q.n).join(", ")}.`}`,
    );
  if (wanted.length === 0) {
    terminal.say("No question waits for an answer.");
    return "done";
  }
  if (typed === undefined && !terminal.interactive)
    throw new CommandError(
      "usage",
      `Say which and how, such as \`graph-relay approvals answer ${wanted[0]?.n} once\`: once, run, always or no.`,
    );
  for (const question of wanted) {
    if (typed === undefined) showQuestion(terminal, question.n, question);
    const answer = typed === undefined ? await askAnswer(terminal) : typedAnswer(typed);
    if (answer === undefined)
      throw new CommandError(
        "usage",
        `An answer is once, run, always or no; ${JSON.stringify(typed)} is none.`,
      );
    if (store.approvals.answer(question.n, answer, `owner, ${answer}`, Date.now()))
      terminal.say(`Question ${question.n} (${question.tool} of ${question.graph}): ${answer}.`);
    else
      throw new CommandError(
        "failed",
        `Question ${question.n} was answered elsewhere already, or its time was up.`,
      );
  }
  return "done";
}
