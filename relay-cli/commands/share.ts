import type { Command } from "commander";
import { LIMITS } from "../../src/protocol/limits.ts";
import { CommandError, type ExitName } from "../exit-codes.ts";
import { sharedSet } from "../relay/sessions.ts";
import { type Context, namedGraph, namedProject, pairedDevice } from "./context.ts";
import type { RunCommand } from "./program.ts";

export function addShare(program: Command, run: RunCommand): void {
  program
    .command("share <graph>")
    .description("let the agents of a project ask for a Graph")
    .option("--project <project>", "its id or name; not needed if there is only one")
    .action((graph: string, options: { project?: string }) =>
      run((context) => share(context, graph, options.project)),
    );
  program
    .command("unshare <graph>")
    .description("take that back; runs that are queued are cancelled")
    .option("--project <project>", "from this project; without it, from all of them")
    .action((graph: string, options: { project?: string }) =>
      run((context) => unshare(context, graph, options.project)),
    );
}

async function share(context: Context, name: string, projectName: string | undefined): Promise<ExitName> {
  const { store, terminal } = context;
  pairedDevice(context);
  const graph = namedGraph(store, name);
  const project = namedProject(store, projectName);
  if (sharedSet([graph], () => true).leftOut.length > 0)
    throw new CommandError(
      "usage",
      `${graph.slug} cannot be shared: its name, description, version or arguments are longer than agents are shown. Shorten them in the file, then \`graph-relay graph add\` it again.`,
    );
  const shared = store.projects.shared(project.project_id);
  const isNew = !shared.some((one) => one.graph_session_id === graph.graph_session_id);
  if (isNew && sharedSet([...shared, graph], () => true).leftOut.length > 0)
    throw new CommandError(
      "usage",
      `A project takes at most ${LIMITS.sessionsPerSync} Graphs of one machine, and 1 MB of what is told of them. Unshare another, or shorten the descriptions and the arguments' schemas.`,
    );
  const added = store.projects.share(project.project_id, graph.graph_session_id, Date.now());
  terminal.say(`${graph.slug} ${added ? "is now" : "was already"} shared with ${project.name}.`);
  return "done";
}

async function unshare(context: Context, name: string, projectName: string | undefined): Promise<ExitName> {
  const { store, terminal } = context;
  const graph = namedGraph(store, name);
  const from =
    projectName === undefined
      ? store.projects.sharedWith(graph.graph_session_id)
      : [namedProject(store, projectName).project_id];
  const taken = from.filter((projectId) => store.projects.unshare(projectId, graph.graph_session_id));
  terminal.say(
    taken.length > 0
      ? `${graph.slug} is no longer shared with ${taken.map((id) => store.projects.find(id)?.name ?? id).join(", ")}.`
      : `${graph.slug} was not shared there.`,
  );
  return "done";
}
