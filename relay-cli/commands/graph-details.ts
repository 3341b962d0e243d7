import { constants, copyFileSync, readdirSync, statSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { type Command, InvalidArgumentError, Option } from "commander";
import { DEFAULT_GRAPH_SETTINGS, type GraphSettings, SETTING_RANGES } from "../engine/index.ts";
import { CommandError, type ExitName } from "../exit-codes.ts";
import { type Context, namedGraph } from "./context.ts";
import { engineFor } from "./engine.ts";
import { type AddOptions, addFile } from "./graph.ts";
import type { RunCommand } from "./program.ts";
import { runHere } from "./run.ts";

const TEMPLATES = fileURLToPath(new URL("../templates/", import.meta.url));

/** `graph new|show|run|grant|revoke|set`. */
export function addGraphDetails(graph: Command, run: RunCommand): void {
  const collect = (value: string, earlier: string[]): string[] => [...earlier, resolve(value)];
  graph
    .command("new <slug>")
    .description("write a new Graph into this folder, from a template that works as it is, and save it")
    .option("--template <name>", `one of: ${templateNames().join(", ")}`, "folder-report")
    .option("--folder <folder>", "let it read in this folder; may be given again", collect, [])
    .option(
      "--write-folder <folder>",
      "let it read and write in this folder; may be given again",
      collect,
      [],
    )
    .action((slug: string, options: NewOptions) => run((context) => create(context, slug, options)));
  graph
    .command("show <graph>")
    .description("one Graph: what it is, what it may do, who can ask for it")
    .option("--json", "as JSON")
    .action((name: string, options: { json?: boolean }) =>
      run((context) => show(context, name, options.json === true)),
    );
  graph
    .command("run <graph> [arguments]")
    .description("run it here and now; arguments are a JSON object, or - for standard input")
    .action((name: string, typed?: string) => run((context) => runHere(context, name, typed)));
  graph
    .command("grant <graph> <folder>")
    .description("let its tools read in a folder")
    .option("--write", "and write")
    .action((name: string, folder: string, options: { write?: boolean }) =>
      run((context) => grant(context, name, folder, options.write === true)),
    );
  graph
    .command("revoke <graph> <folder>")
    .description("take a folder back")
    .action((name: string, folder: string) => run((context) => revoke(context, name, folder)));
  graph
    .command("set <graph>")
    .description("set its limits")
    .option("--tokens <n>", "token ceiling of one run, or none", tokens)
    .option("--memory <megabytes>", range("memory_megabytes"), number("memory_megabytes"))
    .option("--max-seconds <n>", range("max_run_seconds"), number("max_run_seconds"))
    .option(
      "--approval-seconds <n>",
      `how long a question waits; no answer is a no. ${range("approval_timeout_seconds")}`,
      number("approval_timeout_seconds"),
    )
    .addOption(
      new Option("--trusted <yes|no>", "run without Node's permission model: it may do what you may").choices(
        ["yes", "no"],
      ),
    )
    .action((name: string, options: SetOptions) => run((context) => set(context, name, options)));
}

interface NewOptions {
  template: string;
  folder: string[];
  writeFolder: string[];
}

const templateNames = (): string[] =>
  readdirSync(TEMPLATES)
    .filter((name) => name.endsWith(".mjs"))
    .map((name) => basename(name, ".mjs"))
    .sort();

async function create(context: Context, slug: string, options: NewOptions): Promise<ExitName> {
  const names = templateNames();
  if (!names.includes(options.template))
    throw new CommandError(
      "usage",
      `There is no template ${JSON.stringify(options.template)}. There are: ${names.join(", ")}.`,
    );
  if (!/^[a-z0-9]+(?:-[a-z0-9]+)*$/.test(slug))
    throw new CommandError("usage", "A slug is words of a-z and 0-9 joined by -, such as my-report.");
  if (context.store.graphs.find(slug))
    throw new CommandError("usage", `There is a Graph called ${slug} already. Choose another name.`);
  const path = resolve(`${slug}.mjs`);
  try {
    copyFileSync(join(TEMPLATES, `${options.template}.mjs`), path, constants.COPYFILE_EXCL);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new CommandError(
      "usage",
      code === "EEXIST"
        ? `${path} is there already; it was left as it is.`
        : `${path} cannot be written (${code}).`,
    );
  }
  context.terminal.say(`Wrote ${path} from the template ${options.template}.`);
  const add: AddOptions = { slug, folder: options.folder, writeFolder: options.writeFolder };
  const end = await addFile(context, path, add);
  if (options.folder.length + options.writeFolder.length === 0)
    context.terminal.say(`It can read nothing yet: \`graph-relay graph grant ${slug} FOLDER\`.`);
  context.terminal.say(`Try it: \`graph-relay graph run ${slug}\`.`);
  return end;
}

async function show(context: Context, name: string, json: boolean): Promise<ExitName> {
  const { store, terminal } = context;
  const graph = namedGraph(store, name);
  const settings: GraphSettings = {
    ...DEFAULT_GRAPH_SETTINGS,
    ...store.settings.of(graph.graph_session_id),
  };
  const loaded = await engineFor(context).describe({ slug: graph.slug, path: graph.path });
  const view = {
    ...graph,
    added_at: new Date(graph.added_at).toISOString(),
    arguments_schema:
      graph.arguments_schema === null ? null : (JSON.parse(graph.arguments_schema) as unknown),
    loads: loaded.ok,
    ...(loaded.ok ? {} : { problem: loaded.error }),
    shared_with: store.projects
      .sharedWith(graph.graph_session_id)
      .map((id) => store.projects.find(id)?.name ?? id),
    settings,
  };
  if (json) {
    terminal.json(view);
    return "done";
  }
  const rows: [string, string][] = [
    ["Graph", `${view.slug} (${view.graph_session_id})`],
    ["Name", `${view.name}, version ${view.version}`],
    ["Description", view.description || "-"],
    ["File", `${view.path}${loaded.ok ? "" : ` (does not load: ${loaded.error})`}`],
    ["Arguments", view.arguments_schema === null ? "any" : JSON.stringify(view.arguments_schema)],
    ["Shared with", view.shared_with.join(", ") || "nobody"],
    [
      "Folders",
      settings.folders.map(({ path, write }) => `${path} (${write ? "read, write" : "read"})`).join(", ") ||
        "none",
    ],
    [
      "Approvals",
      Object.entries(settings.approvals)
        .map(([tool, setting]) => `${tool}: ${setting}`)
        .join(", ") || "the defaults",
    ],
    ["Token ceiling", settings.token_ceiling === null ? "none" : settings.token_ceiling.toLocaleString("en")],
    ["Memory", `${settings.memory_megabytes} MB`],
    ["Longest run", `${settings.max_run_seconds} s`],
    ["Questions wait", `${settings.approval_timeout_seconds} s`],
    ["Trusted", settings.trusted ? "yes: it may do what you may" : "no"],
  ];
  for (const [label, value] of rows) terminal.data(`${`${label}:`.padEnd(15)} ${value}`);
  return "done";
}

async function grant(context: Context, name: string, folder: string, write: boolean): Promise<ExitName> {
  const { store, terminal } = context;
  const { graph_session_id, slug } = namedGraph(store, name);
  const path = resolve(folder);
  if (!statSync(path, { throwIfNoEntry: false })?.isDirectory())
    throw new CommandError("usage", `There is no folder ${path}.`);
  store.settings.grantFolder(graph_session_id, path, write);
  terminal.say(`${slug} may ${write ? "read and write" : "read"} in ${path}.`);
  return "done";
}

async function revoke(context: Context, name: string, folder: string): Promise<ExitName> {
  const { store, terminal } = context;
  const { graph_session_id, slug } = namedGraph(store, name);
  const path = resolve(folder);
  if (!store.settings.revokeFolder(graph_session_id, path)) {
    const { folders = [] } = store.settings.of(graph_session_id);
    throw new CommandError(
      "usage",
      `${slug} has no grant for ${path}. It has: ${folders.map((f) => f.path).join(", ") || "none"}.`,
    );
  }
  terminal.say(`${slug} can reach ${path} no more.`);
  return "done";
}

interface SetOptions {
  tokens?: number | "none";
  memory?: number;
  maxSeconds?: number;
  approvalSeconds?: number;
  trusted?: "yes" | "no";
}

async function set(context: Context, name: string, options: SetOptions): Promise<ExitName> {
  const { store, terminal } = context;
  const { graph_session_id, slug } = namedGraph(store, name);
  const limits: Partial<Omit<GraphSettings, "folders" | "approvals">> = {
    ...(options.tokens === undefined
      ? {}
      : { token_ceiling: options.tokens === "none" ? null : options.tokens }),
    ...(options.memory === undefined ? {} : { memory_megabytes: options.memory }),
    ...(options.maxSeconds === undefined ? {} : { max_run_seconds: options.maxSeconds }),
    ...(options.approvalSeconds === undefined ? {} : { approval_timeout_seconds: options.approvalSeconds }),
    ...(options.trusted === undefined ? {} : { trusted: options.trusted === "yes" }),
  };
  if (Object.keys(limits).length === 0)
    throw new CommandError(
      "usage",
      "Say what to set, such as --tokens 50000. See graph-relay graph set --help.",
    );
  store.settings.setLimits(graph_session_id, limits);
  terminal.say(
    `${slug}: ${Object.entries(limits)
      .map(([key, value]) => `${key} ${value ?? "none"}`)
      .join(", ")}. It holds from the next run on.`,
  );
  return "done";
}

type RangeName = keyof typeof SETTING_RANGES;
const range = (name: RangeName): string =>
  `from ${SETTING_RANGES[name][0]} to ${SETTING_RANGES[name][2]}, ${SETTING_RANGES[name][1]} unless set`;

const number =
  (name: RangeName) =>
  (value: string): number => {
    const n = Number(value);
    const [least, , most] = SETTING_RANGES[name];
    if (Number.isInteger(n) && n >= least && n <= most) return n;
    throw new InvalidArgumentError(`It must be a whole number from ${least} to ${most}.`);
  };

/** Commander takes null for no value, so "none" stays a word until it is stored. */
const tokens = (value: string): number | "none" =>
  value === "none" ? value : number("token_ceiling")(value);
