import type { Engine, GraphDescription, GraphRef, Json, RunOutcome, RunRequest } from "./contract.ts";
import { describeThrown } from "./error-text.ts";
import { EngineError } from "./errors.ts";
import { ENGINE_LIMITS } from "./limits.ts";
import { type EnginePorts, newUuid, systemPorts } from "./ports.ts";
import { createGuard } from "./process/guard.ts";
import { type JobEnd, locateGraph, runJob } from "./run.ts";
import { settingsOf } from "./settings.ts";
import { runTree, type TreeEnd } from "./tree.ts";

export type { ApprovalBroker, ApprovalDecision, ApprovalRequest, ApprovalSetting } from "./approvals.ts";
export { EMPTY_CONFIG, type EngineConfig, engineConfig } from "./config.ts";
export type * from "./contract.ts";
export { ENGINE_ERROR_CODES, EngineError, type EngineErrorCode } from "./errors.ts";
export { ENGINE_LIMITS, SETTING_RANGES } from "./limits.ts";
export { type EnginePorts, systemPorts } from "./ports.ts";
export { DEFAULT_GRAPH_SETTINGS, type FolderGrant, type GraphSettings } from "./settings.ts";
export { BUILT_IN_TOOLS } from "./tools/tool-box.ts";

/**
 * An engine: runs Graphs, each in a process of its own, on the ports it is given. What is not given is the
 * platform's own (see `systemPorts`): no folder is granted then, and there is nobody to ask.
 */
export function createEngine(given: Partial<EnginePorts> = {}): Engine {
  const ports: EnginePorts = { ...systemPorts, ...given };
  const guard = createGuard(ports);
  const stops = new Map<string, AbortController>();

  return {
    async run(request: RunRequest): Promise<RunOutcome> {
      const run_id = newUuid(ports.random);
      const stop = new AbortController();
      let end: TreeEnd;
      try {
        end = await runTree(ports, guard, request, {
          run_id,
          stop: stop.signal,
          started() {
            stops.set(run_id, stop);
            request.onEvent({ type: "fleet_started", run_id });
          },
        });
      } catch (error) {
        end = {
          status: "failed",
          error: describeThrown(error).message,
          total_tokens: null,
          reported_cost: null,
        };
      }
      stops.delete(run_id);
      const { meta: _, ...outcome } = end;
      return outcome;
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
          settings: await settingsOf(ports, graph),
          work: { t: "describe" },
          stop: limit.signal,
          emit: () => {},
          progress: () => {},
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
