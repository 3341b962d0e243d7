import { statSync } from "node:fs";
import { basename, dirname, extname, resolve } from "node:path";
import type { Command } from "commander";
import { newId } from "../../src/protocol/ids.ts";
import { LIMITS } from "../../src/protocol/limits.ts";
import { systemRandom } from "../../src/protocol/ports.ts";
import { CommandError, type ExitName } from "../exit-codes.ts";
import { sharedSet } from "../relay/sessions.ts";
import type { Graph } from "../store/contract.ts";
import { type Context, namedGraph } from "./context.ts";
import { engineFor } from "./engine.ts";
import { addGraphDetails } from "./graph-details.ts";
import type { RunCommand } from "./program.ts";
import { columns } from "./terminal.ts";

export interface AddOptions {
  slug?: string;
  name?: string;
  description?: string;
  folder: string[];
  writeFolder: string[];
}

export function addGraph(program: Command, run: RunCommand): void {
  const graph = program.command("graph").description("your saved Graphs");
  graph
    .command("add <file>")
    .description("save a Graph, or take over the changes of one that is saved")
    .option("--slug <slug>", "its short name: words of a-z and 0-9 joined by -")
    .option("--name <name>", "in place of the name in the file")
    .option("--description <text>", "in place of the description in the file")
    .option("--folder <folder>", "let it read in this folder; may be given again", collect, [])
    .option(
      "--write-folder <folder>",
      "let it read and write in this folder; may be given again",
      collect,
      [],
    )
    .action((file: string, options: AddOptions) => run((context) => addFile(context, file, options)));
  graph
    .command("list", { isDefault: true })
    .description("list them")
    .option("--json", "as JSON")
    .action((options: { json?: boolean }) => run((context) => list(context, options.json === true)));
  graph
    .command("remove <graph>")
    .description("forget one and unshare it everywhere; its file and its history stay")
    .action((name: string) => run((context) => remove(context, name)));
  addGraphDetails(graph, run);
}

const collect = (value: string, earlier: string[]): string[] => [...earlier, resolve(value)];

/** Saves a Graph's file, or takes over its changes. */
export async function addFile(context: Context, file: string, options: AddOptions): Promise<ExitName> {
  const { store, terminal } = context;
  const path = resolve(file);
  if (!statSync(path, { throwIfNoEntry: false })?.isFile())
    throw new CommandError("usage", `There is no file ${path}.`);
  for (const folder of [...options.folder, ...options.writeFolder])
    if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory())
      throw new CommandError("usage", `There is no folder ${folder}.`);
  const known = store.graphs.list().find((graph) => graph.path === path);
  const slug = options.slug ?? known?.slug ?? slugOf(path);
  const description = await engineFor(context).describe({ slug, path });
  if (!description.ok)
    throw new CommandError("usage", `${path} is no Graph that loads: ${description.error}`);
  const { meta } = description;
  const graph: Graph = {
    graph_session_id: known?.graph_session_id ?? newId("gs", systemRandom),
    slug,
    name: options.name ?? meta.name ?? slug,
    description: options.description ?? meta.description ?? "",
    version: meta.version ?? "0",
    path,
    arguments_schema: meta.arguments === undefined ? null : JSON.stringify(meta.arguments),
    added_at: known?.added_at ?? Date.now(),
  };
  if (sharedSet([graph], () => true).leftOut.length > 0)
    throw new CommandError("usage", `${path} cannot be saved. ${METADATA_RULES}`);
  if (known) store.graphs.update(graph);
  else store.graphs.add(graph);
  for (const folder of options.folder) store.settings.grantFolder(graph.graph_session_id, folder, false);
  for (const folder of options.writeFolder) store.settings.grantFolder(graph.graph_session_id, folder, true);
  terminal.say(`${known ? "Updated" : "Added"} ${slug}. Share it with \`graph-relay share ${slug}\`.`);
  return "done";
}

const METADATA_RULES =
  `The slug must be words of a-z and 0-9 joined by -, at most ${LIMITS.slugCharacters} characters; the name at most ` +
  `${LIMITS.nameCharacters}, the description ${LIMITS.descriptionCharacters}, the version ${LIMITS.versionCharacters}, ` +
  `without control characters; the arguments' schema at most ${LIMITS.argumentsSchemaCharacters} characters of JSON.`;

/** A slug from the file's name, or from its folder's if the file is an index. */
function slugOf(path: string): string {
  const stem = basename(path, extname(path));
  const slug = (stem === "index" ? basename(dirname(path)) : stem)
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-|-$/g, "")
    .slice(0, LIMITS.slugCharacters)
    .replace(/-$/, "");
  if (slug) return slug;
  throw new CommandError("usage", `No slug can be made of ${path}. Choose one with --slug.`);
}

async function list(context: Context, json: boolean): Promise<ExitName> {
  const { store, terminal } = context;
  const graphs = store.graphs.list().map((graph) => ({
    ...graph,
    arguments_schema:
      graph.arguments_schema === null ? null : (JSON.parse(graph.arguments_schema) as unknown),
    shared_with: store.projects.sharedWith(graph.graph_session_id),
  }));
  if (json) terminal.json(graphs);
  else if (graphs.length === 0) terminal.say("No Graph is saved. Add one with `graph-relay graph add FILE`.");
  else
    for (const line of columns([
      ["GRAPH", "NAME", "SHARED WITH", "FILE"],
      ...graphs.map((graph) => [
        graph.slug,
        graph.name,
        graph.shared_with.map((id) => store.projects.find(id)?.name ?? id).join(", ") || "-",
        graph.path,
      ]),
    ]))
      terminal.data(line);
  return "done";
}

async function remove(context: Context, name: string): Promise<ExitName> {
  const graph = namedGraph(context.store, name);
  context.store.graphs.remove(graph.graph_session_id);
  context.terminal.say(`Removed ${graph.slug}. Its file ${graph.path} is left where it is.`);
  return "done";
}
