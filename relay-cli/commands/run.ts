import type { Command } from "commander";
import { newUuid } from "../../src/protocol/ids.ts";
import { systemRandom } from "../../src/protocol/ports.ts";
import type { RunOutcome } from "../engine/contract.ts";
import type { ExitName } from "../exit-codes.ts";
import { createRecorder } from "../relay/recorder.ts";
import { systemClock } from "../relay/system.ts";
import { readArguments } from "./arguments.ts";
import { type Context, namedGraph } from "./context.ts";
import { engineFor, pruneHistory } from "./engine.ts";
import { watchEngine } from "./live-view.ts";
import type { RunCommand } from "./program.ts";

export function addRun(program: Command, run: RunCommand): void {
  program
    .command("run <graph> [arguments]")
    .description("run a Graph here and now; arguments are a JSON object, or - for standard input")
    .action((graph: string, typed?: string) => run((context) => runHere(context, graph, typed)));
}

/** Runs it as a run from outside would be, and prints what it returned. */
export async function runHere(context: Context, name: string, typed: string | undefined): Promise<ExitName> {
  const { store, terminal } = context;
  const graph = namedGraph(store, name);
  const args = await readArguments(terminal, typed);
  const execution_id = newUuid(systemRandom);
  store.history.begin(
    {
      execution_id,
      channel: `graph:local:${execution_id}`,
      command_id: null,
      project_id: null,
      graph_session_id: graph.graph_session_id,
      slug: graph.slug,
      agent_name: null,
      arguments_json: JSON.stringify(args),
      started_at: Date.now(),
    },
    process.pid,
  );
  const recorder = createRecorder(
    { clock: systemClock, log: context.log, history: store.history },
    execution_id,
  );
  pruneHistory(context);
  const view = watchEngine(engineFor(context), terminal, systemClock.monotonic);
  const { engine } = view;
  let runId: string | undefined;
  const stop = () => {
    if (runId !== undefined && !engine.fleetCancelRun(runId)) process.exit(130);
  };
  process.on("SIGINT", stop).on("SIGTERM", stop);
  const outcome = await engine.run({
    execution_id,
    channel: `graph:local:${execution_id}`,
    graph: { slug: graph.slug, path: graph.path },
    args,
    onEvent(event) {
      recorder.add(event);
      if (event.type === "fleet_started") runId = event.run_id;
      else if (event.type === "log") terminal.say(event.line);
    },
  });
  view.stop();
  process.off("SIGINT", stop).off("SIGTERM", stop);
  recorder.flush();
  store.history.finish({ execution_id, outcome, finished_at: Date.now() });
  return show(context, outcome);
}

function show({ terminal }: Context, outcome: RunOutcome): ExitName {
  if (outcome.error !== undefined) terminal.say(outcome.error);
  if (outcome.result_json !== undefined) terminal.json(JSON.parse(outcome.result_json));
  if (outcome.status === "completed") return "done";
  return outcome.status === "cancelled" ? "graph_cancelled" : "graph_failed";
}
