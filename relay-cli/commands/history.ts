import type { Command } from "commander";
import { InvalidArgumentError } from "commander";
import type { EngineEvent } from "../engine/contract.ts";
import { CommandError, type ExitName } from "../exit-codes.ts";
import { printable } from "../relay/failure.ts";
import type { HistoryEntry } from "../store/contract.ts";
import { readConfig } from "./config.ts";
import type { Context } from "./context.ts";
import { closeDeadRuns } from "./engine.ts";
import type { RunCommand } from "./program.ts";
import { visible } from "./safe-text.ts";
import { columns } from "./terminal.ts";

export function addHistory(program: Command, run: RunCommand): void {
  const history = program.command("history").description("what ran here, in full");
  history
    .command("list", { isDefault: true })
    .description("the latest runs")
    .option("--limit <n>", "how many", count, 20)
    .option("--graph <slug>", "of this Graph only")
    .option("--json", "as JSON")
    .action((options: ListOptions) =>
      run((context) => {
        closeDeadRuns(context);
        return list(context, options);
      }),
    );
  history
    .command("show <execution>")
    .description("one run with its arguments, result and events, as JSON")
    .option("--log", "its log and what it did, line by line, in place of JSON")
    .action((id: string, options: { log?: boolean }) =>
      run((context) => {
        closeDeadRuns(context);
        return options.log === true ? showLog(context, id) : show(context, id);
      }),
    );
  history
    .command("prune")
    .description("forget runs that ended longer ago, or beyond what may be kept; see config.json")
    .option("--days <n>", "that ended more than n days ago", amount)
    .option("--megabytes <n>", "until the rest takes at most so much", amount)
    .action((options: { days?: number; megabytes?: number }) => run((context) => prune(context, options)));
}

interface ListOptions {
  limit: number;
  graph?: string;
  json?: boolean;
}

function amount(value: string): number {
  const n = Number(value);
  if (value.trim() !== "" && n >= 0 && Number.isFinite(n)) return n;
  throw new InvalidArgumentError("It must be a number of 0 or more.");
}

async function prune(
  context: Context,
  { days, megabytes }: { days?: number; megabytes?: number },
): Promise<ExitName> {
  closeDeadRuns(context);
  const keep = readConfig(context.folder).history;
  const gone = context.store.history.prune({
    endedBefore: Date.now() - (days ?? keep.keep_days) * 86_400_000,
    characters: (megabytes ?? keep.keep_megabytes) * 1_000_000,
  });
  context.terminal.say(`${gone} run${gone === 1 ? "" : "s"} forgotten.`);
  return "done";
}

function count(value: string): number {
  const n = Number(value);
  if (Number.isInteger(n) && n >= 1) return n;
  throw new InvalidArgumentError("It must be a whole number of 1 or more.");
}

const time = (ms: number | null): string | null => (ms === null ? null : new Date(ms).toISOString());

function view({ arguments_json, result_json, started_at, finished_at, ...entry }: HistoryEntry) {
  return { ...entry, started_at: time(started_at), finished_at: time(finished_at) };
}

async function list({ store, terminal }: Context, { limit, graph, json }: ListOptions): Promise<ExitName> {
  const entries = store.history.list(limit, graph).map(view);
  if (json) terminal.json(entries);
  else if (entries.length === 0) terminal.say("Nothing has run yet.");
  else
    for (const line of columns([
      ["STARTED", "GRAPH", "STATUS", "FOR", "EXECUTION"],
      ...entries.map((entry) => [
        entry.started_at ?? "",
        entry.slug,
        entry.status,
        entry.agent_name === null ? "here" : printable(entry.agent_name),
        entry.execution_id,
      ]),
    ]))
      terminal.data(line);
  return "done";
}

async function show({ store, terminal }: Context, id: string): Promise<ExitName> {
  const entry = store.history.find(id);
  if (!entry) throw new CommandError("usage", `The history has no execution ${printable(id)}.`);
  terminal.json({
    ...view(entry),
    arguments: JSON.parse(entry.arguments_json),
    ...(entry.result_json === null ? {} : { result: JSON.parse(entry.result_json) }),
    events: store.history.events(id).map(({ at, event }) => ({ at: time(at), ...event })),
  });
  return "done";
}

/** A run's events as lines for a person: when, and what. */
async function showLog({ store, terminal }: Context, id: string): Promise<ExitName> {
  if (!store.history.find(id))
    throw new CommandError("usage", `The history has no execution ${printable(id)}.`);
  for (const { at, event } of store.history.events(id)) {
    const text = lineOf(event);
    if (text !== undefined) terminal.data(`${time(at)} ${visible(text).replaceAll("\n", "\n    ")}`);
  }
  return "done";
}

function lineOf(event: EngineEvent): string | undefined {
  switch (event.type) {
    case "log":
      return event.line;
    case "progress":
      return event.progress.message;
    case "agent_started":
      return `agent ${event.agent} (${event.model}) is asked: ${event.prompt}`;
    case "agent_finished":
      return `agent ${event.agent} ${event.error === undefined ? `answered: ${event.answer}` : `failed: ${event.error}`} (${event.input_tokens + event.output_tokens} tokens, ${event.milliseconds} ms)`;
    case "tool_used":
      return `${event.tool} ${event.decision} (${event.by}): ${event.request}`;
    case "fleet_started":
      return undefined;
  }
}
