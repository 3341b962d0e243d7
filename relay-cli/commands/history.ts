import type { Command } from "commander";
import { InvalidArgumentError } from "commander";
import { CommandError, type ExitName } from "../exit-codes.ts";
import { printable } from "../relay/failure.ts";
import type { HistoryEntry } from "../store/contract.ts";
import type { Context } from "./context.ts";
import type { RunCommand } from "./program.ts";
import { columns } from "./terminal.ts";

export function addHistory(program: Command, run: RunCommand): void {
  const history = program.command("history").description("what ran here, in full");
  history
    .command("list", { isDefault: true })
    .description("the latest runs")
    .option("--limit <n>", "how many", count, 20)
    .option("--json", "as JSON")
    .action((options: { limit: number; json?: boolean }) =>
      run((context) => list(context, options.limit, options.json === true)),
    );
  history
    .command("show <execution>")
    .description("one run with its arguments, result and events, as JSON")
    .action((id: string) => run((context) => show(context, id)));
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

async function list({ store, terminal }: Context, limit: number, json: boolean): Promise<ExitName> {
  const entries = store.history.list(limit).map(view);
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
