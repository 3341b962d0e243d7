import type {
  Engine,
  EngineEvent,
  GraphDescription,
  GraphRef,
  Json,
  RunOutcome,
  RunRequest,
} from "./contract.ts";
import { describeThrown } from "./error-text.ts";
import { EngineError } from "./errors.ts";
import { ENGINE_LIMITS } from "./limits.ts";
import { type EnginePorts, newUuid, systemPorts } from "./ports.ts";
import { createGuard } from "./process/guard.ts";
import type { HostCall } from "./process/messages.ts";
import { type JobEnd, locateGraph, runJob } from "./run.ts";
import { DEFAULT_GRAPH_SETTINGS, type GraphSettings } from "./settings.ts";
import type { Tool } from "./tools/tool.ts";
import { BUILT_IN_TOOLS, type ToolSession, useTool } from "./tools/use-tool.ts";

export type { ApprovalBroker, ApprovalDecision, ApprovalRequest, ApprovalSetting } from "./approvals.ts";
export type * from "./contract.ts";
export { ENGINE_ERROR_CODES, EngineError, type EngineErrorCode } from "./errors.ts";
export { ENGINE_LIMITS, SETTING_RANGES } from "./limits.ts";
export { type EnginePorts, systemPorts } from "./ports.ts";
export { DEFAULT_GRAPH_SETTINGS, type FolderGrant, type GraphSettings } from "./settings.ts";

/**
 * An engine: runs Graphs, each in a process of its own, on the ports it is given. What is not given is the
 * platform's own (see `systemPorts`): no folder is granted then, and there is nobody to ask.
 */
export function createEngine(given: Partial<EnginePorts> = {}): Engine {
  const ports: EnginePorts = { ...systemPorts, ...given };
  const guard = createGuard(ports.processes);
  const stops = new Map<string, AbortController>();

  const settingsOf = async (graph: GraphRef): Promise<GraphSettings> => ({
    ...DEFAULT_GRAPH_SETTINGS,
    ...(await ports.settings(graph)),
  });

  return {
    async run(request: RunRequest): Promise<RunOutcome> {
      const run_id = newUuid(ports.random);
      const stop = new AbortController();
      const { graph, args } = request;
      const emit = (event: EngineEvent): void => request.onEvent(event);
      let end: JobEnd;
      try {
        const settings = await settingsOf(graph);
        const session = toolSession(ports, settings, { request, run_id, signal: stop.signal, emit });
        end = await runJob(ports, guard, {
          graph,
          path: await locateGraph(ports, graph),
          settings,
          work: { t: "run", args },
          stop: stop.signal,
          emit,
          started() {
            stops.set(run_id, stop);
            emit({ type: "fleet_started", run_id });
          },
          serve: (call, signal) => serve(call, session, signal),
        });
      } catch (error) {
        end = { status: "failed", error: describeThrown(error).message };
      }
      stops.delete(run_id);
      const { meta: _, ...outcome } = end;
      return { ...outcome, total_tokens: null, reported_cost: null };
    },

    fleetCancelRun(run_id: string): boolean {
      const stop = stops.get(run_id);
      if (stop === undefined || stop.signal.aborted) return false;
      stop.abort(new EngineError("stopped", "The run was told to stop."));
      return true;
    },

    async describe(graph: GraphRef): Promise<GraphDescription> {
      const limit = new AbortController();
      const cancel = ports.clock.after(ENGINE_LIMITS.describeMilliseconds, () =>
        limit.abort(new EngineError("limit", "The Graph's file did not load in 15 s.")),
      );
      try {
        const end = await runJob(ports, guard, {
          graph,
          path: await locateGraph(ports, graph),
          settings: await settingsOf(graph),
          work: { t: "describe" },
          stop: limit.signal,
          emit: () => {},
          started: () => {},
          serve: async () => {
            throw new EngineError("limit", "A Graph can do nothing while only its meta is read.");
          },
        });
        return describe(end);
      } catch (error) {
        return { ok: false, error: describeThrown(error).message };
      } finally {
        cancel();
      }
    },
  };
}

function describe(end: JobEnd): GraphDescription {
  if (end.status !== "completed") return { ok: false, error: end.error ?? "The Graph's file did not load." };
  const { name, description, version, arguments: args } = (end.meta ?? {}) as { [key: string]: Json };
  return {
    ok: true,
    meta: {
      ...(typeof name === "string" ? { name } : {}),
      ...(typeof description === "string" ? { description } : {}),
      ...(typeof version === "string" ? { version } : {}),
      ...(typeof args === "object" && args !== null && !Array.isArray(args) ? { arguments: args } : {}),
    },
  };
}

function toolSession(
  ports: EnginePorts,
  settings: GraphSettings,
  run: { request: RunRequest; run_id: string; signal: AbortSignal; emit(event: EngineEvent): void },
): Omit<ToolSession, "context"> & { context: Omit<ToolSession["context"], "signal"> } {
  return {
    context: { ports, settings },
    tools: new Map<string, Tool>(BUILT_IN_TOOLS.map((tool) => [tool.name, tool])),
    emit: run.emit,
    async ask(tool, request) {
      const { answer, by } = await ports.approvals.ask(
        {
          execution_id: run.request.execution_id,
          run_id: run.run_id,
          graph: run.request.graph.slug,
          tool,
          request,
          timeout_seconds: settings.approval_timeout_seconds,
        },
        run.signal,
      );
      if (answer !== "refused") return by;
      run.emit({ type: "tool_used", tool, request, decision: "refused", by });
      throw new EngineError("approval_refused", `${tool} was not approved (${by}).`);
    },
  };
}

async function serve(
  call: HostCall,
  session: ReturnType<typeof toolSession>,
  signal: AbortSignal,
): Promise<Json> {
  if (call.fn === "tool")
    return useTool({ ...session, context: { ...session.context, signal } }, call.name, call.input);
  throw new EngineError("not_found", `${call.fn}() is not available in this engine.`);
}
