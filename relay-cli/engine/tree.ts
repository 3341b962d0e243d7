import type { AgentTool } from "./agents/run-agent.ts";
import { runAgent } from "./agents/run-agent.ts";
import { type ApprovalDesk, createApprovalDesk } from "./approvals.ts";
import { type Budget, createBudget } from "./budget.ts";
import type { EngineConfig } from "./config.ts";
import type { EngineEvent, GraphRef, Json, RunRequest } from "./contract.ts";
import { EngineError } from "./errors.ts";
import { ENGINE_LIMITS } from "./limits.ts";
import { createMcpServers, type McpServers } from "./mcp/servers.ts";
import type { EnginePorts } from "./ports.ts";
import type { Guard } from "./process/guard.ts";
import type { HostCall } from "./process/messages.ts";
import { type JobEnd, locateGraph, runJob } from "./run.ts";
import { createRunProgress, type RunProgress } from "./run-progress.ts";
import { type GraphSettings, settingsOf } from "./settings.ts";
import { approvalSetting, findTool, findTools, inputSchema } from "./tools/tool-box.ts";
import { type ToolSession, useTool } from "./tools/use-tool.ts";

/** What all Graphs of one run share: the first and those it calls. */
interface Tree {
  ports: EnginePorts;
  guard: Guard;
  request: RunRequest;
  run_id: string;
  config: EngineConfig;
  stop: AbortSignal;
  desk: ApprovalDesk;
  progress: RunProgress;
  mcp: McpServers;
  agents: number;
  subGraphs: number;
}

/** One Graph of the run. */
interface Node {
  graph: GraphRef;
  path: string;
  settings: GraphSettings;
  budget: Budget;
  /** Real paths of the Graphs above it, the first one first. */
  above: readonly string[];
  emit(event: EngineEvent): void;
}

/** A run's end, with what it used. */
export interface TreeEnd extends JobEnd {
  total_tokens: number | null;
  reported_cost: number | null;
}

/** Runs a Graph and everything it calls, until nothing of it is left. `started` is told when the first process is up. */
export async function runTree(
  ports: EnginePorts,
  guard: Guard,
  request: RunRequest,
  run: { run_id: string; stop: AbortSignal; started(): void },
): Promise<TreeEnd> {
  const { graph, args } = request;
  const emit = (event: EngineEvent): void => request.onEvent(event);
  const settings = await settingsOf(ports, graph);
  const config = await ports.config();
  const mcp = createMcpServers(ports, guard, config.mcp_servers);
  const progress = createRunProgress(ports.clock, emit);
  const tree: Tree = {
    ports,
    guard,
    request,
    run_id: run.run_id,
    config,
    stop: run.stop,
    desk: createApprovalDesk(ports.approvals, ports.clock, progress.waiting),
    progress,
    mcp,
    agents: 0,
    subGraphs: 0,
  };
  const budget = createBudget(lower(settings.token_ceiling, request.token_ceiling), graph.slug);
  try {
    const path = await locateGraph(ports, graph);
    const end = await runNode(
      tree,
      { graph, path, settings, budget, above: [], emit },
      args,
      run.stop,
      run.started,
    );
    return { ...end, total_tokens: budget.tokens(), reported_cost: budget.cost() };
  } finally {
    progress.end();
    await mcp.close();
  }
}

const lower = (a: number | null, b: number | undefined): number | null =>
  b === undefined ? a : a === null ? b : Math.min(a, b);

function runNode(
  tree: Tree,
  node: Node,
  args: { [key: string]: Json },
  stop: AbortSignal,
  started: () => void,
): Promise<JobEnd> {
  return runJob(tree.ports, tree.guard, {
    graph: node.graph,
    path: node.path,
    settings: node.settings,
    work: { t: "run", args },
    stop,
    emit: node.emit,
    // Of the first Graph alone: those it calls are its own affair.
    progress: node.above.length === 0 ? tree.progress.graph : () => {},
    started,
    serve: (call, signal) => serve(tree, node, call, AbortSignal.any([signal, stop])),
  });
}

function serve(tree: Tree, node: Node, call: HostCall, signal: AbortSignal): Promise<Json> {
  if (call.fn === "tool") return callTool(tree, node, call.name, call.input, signal);
  if (call.fn === "graph") return callGraph(tree, node, call.slug, call.args, signal);
  const { ports, guard, config } = tree;
  return runAgent(
    {
      ports,
      guard,
      config,
      budget: node.budget,
      nextNumber: () => ++tree.agents,
      toolsFor: (names) => toolsFor(tree, node, names, signal),
      emit: node.emit,
    },
    call.prompt,
    call.options,
    signal,
  );
}

/** Settings are read for each use: what the owner takes back holds at once. */
async function toolSession(tree: Tree, node: Node, signal: AbortSignal): Promise<ToolSession> {
  const { ports, guard, request, run_id } = tree;
  const settings = await settingsOf(ports, node.graph);
  return {
    context: { ports, guard, settings, signal },
    emit: node.emit,
    ask: (tool, what) =>
      tree.desk.ask(
        {
          execution_id: request.execution_id,
          run_id,
          graph: node.graph.slug,
          tool,
          request: what,
          timeout_seconds: settings.approval_timeout_seconds,
        },
        signal,
      ),
  };
}

async function callTool(
  tree: Tree,
  node: Node,
  name: string,
  input: Json,
  signal: AbortSignal,
): Promise<Json> {
  const tool = await findTool(tree.mcp, name);
  return useTool(await toolSession(tree, node, signal), tool, input);
}

async function toolsFor(
  tree: Tree,
  node: Node,
  names: readonly string[],
  signal: AbortSignal,
): Promise<AgentTool[]> {
  const tools = await findTools(tree.mcp, names);
  const settings = await settingsOf(tree.ports, node.graph);
  return tools.flatMap((tool) => {
    if (approvalSetting(settings, tool) === "deny") {
      const line = `${tool.name} is denied to this Graph, so its agents are not offered it.`;
      node.emit({ type: "log", line });
      return [];
    }
    const { name, description } = tool;
    const use = async (input: Json): Promise<Json> =>
      useTool(await toolSession(tree, node, signal), tool, input);
    return [{ name, description, schema: inputSchema(tool), use }];
  });
}

/** Another Graph of the owner, in a process of its own, under its own settings; its tokens count for its callers too. */
async function callGraph(
  tree: Tree,
  node: Node,
  slug: string,
  args: { [key: string]: Json },
  signal: AbortSignal,
): Promise<Json> {
  const { ports } = tree;
  if (node.above.length >= ENGINE_LIMITS.graphDepth)
    throw new EngineError(
      "limit",
      `graph ${slug}: Graphs may stand ${ENGINE_LIMITS.graphDepth} deep, no deeper.`,
    );
  const graph = await ports.findGraph(slug);
  if (graph === undefined) throw new EngineError("not_found", `There is no Graph ${JSON.stringify(slug)}.`);
  const path = await locateGraph(ports, graph);
  const above = [...node.above, node.path];
  if (above.includes(path))
    throw new EngineError("graph_cycle", `graph ${slug}: it is running above this Graph already.`);
  if (tree.subGraphs >= ENGINE_LIMITS.subGraphs)
    throw new EngineError(
      "limit",
      `graph ${slug}: ${ENGINE_LIMITS.subGraphs} Graphs are called at once already.`,
    );
  const settings = await settingsOf(ports, graph);
  tree.subGraphs++;
  try {
    const budget = node.budget.part(settings.token_ceiling, slug);
    const emit = (event: EngineEvent): void => {
      if (event.type === "fleet_started" || event.type === "progress") return; // neither is a sub-Graph's to say
      node.emit({ ...event, graph: event.graph ?? slug });
    };
    const end = await runNode(tree, { graph, path, settings, budget, above, emit }, args, signal, () => {});
    signal.throwIfAborted();
    if (end.status !== "completed" || end.result_json === undefined)
      throw new EngineError("graph_failed", `graph ${slug}: ${end.error ?? end.status}`);
    if (end.result_json.length > ENGINE_LIMITS.messageCharacters)
      throw new EngineError(
        "limit",
        `graph ${slug}: its result is over ${ENGINE_LIMITS.messageCharacters} characters.`,
      );
    return JSON.parse(end.result_json) as Json;
  } finally {
    tree.subGraphs--;
  }
}
