import { createHash } from "node:crypto";
import type { Command } from "commander";
import { graphSessionId, newUuid } from "../../src/protocol/ids.ts";
import { canonicalJson, type JsonObject } from "../../src/protocol/json.ts";
import { systemRandom } from "../../src/protocol/ports.ts";
import { isTerminal } from "../../src/protocol/states.ts";
import { listOutput, type RunOutput, runOutput } from "../../src/protocol/tools.ts";
import { CommandError, type ExitName } from "../exit-codes.ts";
import { printable } from "../relay/failure.ts";
import { systemClock } from "../relay/system.ts";
import { isLocked } from "../store/lock.ts";
import { asAgent } from "./agent-login.ts";
import { type AgentTools, openAgentTools, ToolRefusal } from "./agent-tools.ts";
import { readArguments } from "./arguments.ts";
import type { Context } from "./context.ts";
import { endpointOrigin } from "./login.ts";
import type { RunCommand } from "./program.ts";

interface CallOptions {
  url?: string;
  browser: boolean;
  json?: boolean;
}

export function addCall(program: Command, run: RunCommand): void {
  program
    .command("call <session> [arguments]")
    .description("ask for a Graph through the endpoint, as a connected agent would, and wait for its result")
    .option("--url <url>", "the endpoint; the one this machine is paired with otherwise")
    .option("--no-browser", "if a sign-in is needed, only print the address to open")
    .option("--json", "print the whole record of the run, not only its result")
    .action((session: string, typed: string | undefined, options: CallOptions) =>
      run((context) => call(context, session, typed, options)),
    );
}

async function call(
  context: Context,
  session: string,
  typed: string | undefined,
  options: CallOptions,
): Promise<ExitName> {
  const { store, terminal } = context;
  const url = options.url ?? store.device.get()?.server_url;
  if (url === undefined)
    throw new CommandError(
      "not_paired",
      "Name the endpoint with --url: this machine is not paired with one.",
    );
  const serverUrl = endpointOrigin(url);
  const args = await readArguments(terminal, typed);
  const ports = { terminal, calls: store.calls, serverUrl };
  const followRun = runFollower(context, serverUrl, session, args);
  const run = await asAgent(ports, !options.browser, async (provider) => {
    const tools = await openAgentTools(`${serverUrl}/mcp`, provider);
    try {
      return await followRun(tools);
    } finally {
      await tools.close();
    }
  });
  return show(context, run, options.json === true);
}

/**
 * What asks for the run and waits until it ended. Called again, after a sign-in that ended in the middle, it
 * goes on with the run it has.
 */
export function runFollower(
  context: Context,
  serverUrl: string,
  session: string,
  args: JsonObject,
): (tools: AgentTools) => Promise<RunOutput> {
  let ticket: RunOutput | undefined;
  return async (tools) => {
    if (!ticket) {
      const sessionId = await resolveSession(context, tools, session);
      ticket = await ask(context, tools, serverUrl, sessionId, args);
      context.terminal.say(`Queued as ${ticket.command_id}. ${ticket.next_step}`);
    }
    return wait(context, tools, ticket);
  };
}

/** How long a Graph that this machine has just shared is waited for. */
const JUST_SHARED_MS = 10_000;

/** A session by its id, or by the slug or name under which it is listed. */
async function resolveSession(context: Context, tools: AgentTools, named: string): Promise<string> {
  if (graphSessionId.safeParse(named).success) return named;
  const until = systemClock.monotonic() + (isBeingShared(context, named) ? JUST_SHARED_MS : 0);
  for (;;) {
    const { sessions } = listOutput.parse(await tools.call("list_graph_sessions", {}));
    const [only, another] = sessions.filter((one) => one.slug === named || one.name === named);
    if (only && !another) return only.graph_session_id;
    const list = sessions.map((one) => `${printable(one.slug)} (${one.graph_session_id})`).join(", ");
    if (another)
      throw new CommandError(
        "usage",
        `More than one shared Graph is called ${JSON.stringify(named)}; use its id: ${list}.`,
      );
    if (systemClock.monotonic() >= until)
      throw new CommandError(
        "usage",
        `No shared Graph is called ${JSON.stringify(named)}. ${list ? `There are: ${list}.` : "Nothing is shared with this agent's projects."}`,
      );
    await systemClock.sleep(1_000);
  }
}

/** Whether the relay of this machine is about to tell the server of a Graph with this slug. */
function isBeingShared({ store, folder }: Context, slug: string): boolean {
  const graph = store.graphs.find(slug);
  return (
    graph !== undefined && store.projects.sharedWith(graph.graph_session_id).length > 0 && isLocked(folder)
  );
}

/** Asks for the run with one key for one intent: after a lost answer, now or by the next same command, the same key asks again. */
async function ask(
  { store }: Context,
  tools: AgentTools,
  serverUrl: string,
  sessionId: string,
  args: JsonObject,
): Promise<RunOutput> {
  const intent = [serverUrl, sessionId, canonicalJson(args)].join("\n");
  const fingerprint = createHash("sha256").update(intent).digest("hex");
  const idempotency_key = store.calls.open(fingerprint, newUuid(systemRandom));
  try {
    const request = { graph_session_id: sessionId, arguments: args, idempotency_key };
    const ticket = runOutput.parse(await tools.call("run_graph_session", request));
    store.calls.close(fingerprint);
    return ticket;
  } catch (error) {
    // A refusal is an answer: nothing was queued, and the next same command is a new intent.
    if (error instanceof ToolRefusal) store.calls.close(fingerprint);
    throw error;
  }
}

async function wait({ terminal }: Context, tools: AgentTools, ticket: RunOutput): Promise<RunOutput> {
  let run = ticket;
  let told = "";
  while (!isTerminal(run.status)) {
    run = runOutput.parse(await tools.call("get_graph_run", { command_id: run.command_id }));
    const line = [
      run.status,
      run.progress?.state === "awaiting_approval" ? "waits for approval" : "",
      run.progress?.message,
    ]
      .filter(Boolean)
      .join(": ");
    if (line !== told) terminal.say(printable(line));
    told = line;
    // The call itself waits; the pause only keeps a server that answers at once from being asked without end.
    if (!isTerminal(run.status)) await systemClock.sleep(Math.min(run.check_after_seconds ?? 1, 2) * 1_000);
  }
  return run;
}

function show({ terminal }: Context, run: RunOutput, whole: boolean): ExitName {
  if (run.error !== undefined) terminal.say(run.error);
  if (run.result_truncated)
    terminal.say(
      `The result was too large to send. It is on the desktop: history, execution ${run.execution_id}.`,
    );
  if (whole) terminal.json(run);
  else if (run.result !== undefined) terminal.json(run.result);
  if (run.status === "completed") return "done";
  terminal.say(`The run ended as ${run.status}.`);
  return run.status === "failed" ? "graph_failed" : "graph_cancelled";
}
