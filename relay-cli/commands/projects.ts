import type { Command } from "commander";
import type { ExitName } from "../exit-codes.ts";
import { printable } from "../relay/failure.ts";
import { type Context, deviceApi, namedProject, pairedDevice, refusal } from "./context.ts";
import type { RunCommand } from "./program.ts";
import { columns } from "./terminal.ts";

export function addProjects(program: Command, run: RunCommand): void {
  const projects = program.command("projects").description("the projects of your account");
  projects
    .command("list", { isDefault: true })
    .description("list them, as the server has them now")
    .option("--json", "as JSON")
    .action((options: { json?: boolean }) => run((context) => list(context, options.json === true)));
  for (const enabled of [true, false])
    projects
      .command(`${enabled ? "enable" : "disable"} <project>`)
      .description(enabled ? "take runs from it again" : "take no runs from it; what is shared is kept")
      .action((name: string) => run((context) => setEnabled(context, name, enabled)));
}

async function list(context: Context, json: boolean): Promise<ExitName> {
  const { store, terminal } = context;
  const answer = await deviceApi(context, pairedDevice(context)).projects();
  if (!answer.ok) throw refusal(answer.failure);
  store.projects.setKnown(answer.value.projects);
  const rows = store.projects.list().map((project) => ({
    project_id: project.project_id,
    name: project.name,
    enabled: project.enabled,
    shared: store.projects.shared(project.project_id).map((graph) => graph.slug),
    problem: project.problem,
  }));
  if (json) terminal.json(rows);
  else if (rows.length === 0) terminal.say("Your account has no project.");
  else
    for (const line of columns([
      ["PROJECT", "NAME", "ENABLED", "SHARED GRAPHS"],
      ...rows.map((row) => [
        row.project_id,
        printable(row.name),
        row.enabled ? "yes" : "no",
        row.shared.join(", "),
      ]),
    ]))
      terminal.data(line);
  return "done";
}

async function setEnabled(context: Context, name: string, enabled: boolean): Promise<ExitName> {
  const project = namedProject(context.store, name);
  const changed = context.store.projects.setEnabled(project.project_id, enabled);
  const state = enabled ? "enabled" : "disabled";
  context.terminal.say(`${project.name} ${changed ? "is now" : "was already"} ${state}.`);
  return "done";
}
