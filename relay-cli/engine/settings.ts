import type { ApprovalSetting } from "./approvals.ts";
import type { GraphRef } from "./contract.ts";
import { SETTING_RANGES } from "./limits.ts";
import type { EnginePorts } from "./ports.ts";

/** A folder that a Graph's tools may reach into. */
export interface FolderGrant {
  /** Absolute. */
  path: string;
  /** Whether `write_file` may write there, once it is approved. */
  write: boolean;
}

/** What an owner sets for one Graph. */
export interface GraphSettings {
  folders: readonly FolderGrant[];
  /** By tool name; a tool that is not named takes its own default. */
  approvals: Readonly<Record<string, ApprovalSetting>>;
  /** Input and output tokens of all agents of one run; null is no ceiling. */
  token_ceiling: number | null;
  memory_megabytes: number;
  max_run_seconds: number;
  approval_timeout_seconds: number;
  /** Runs without Node's permission model: the Graph may do whatever its owner may. */
  trusted: boolean;
}

/** The settings of a Graph whose owner set none. */
export const DEFAULT_GRAPH_SETTINGS: GraphSettings = {
  folders: [],
  approvals: {},
  token_ceiling: SETTING_RANGES.token_ceiling[1],
  memory_megabytes: SETTING_RANGES.memory_megabytes[1],
  max_run_seconds: SETTING_RANGES.max_run_seconds[1],
  approval_timeout_seconds: SETTING_RANGES.approval_timeout_seconds[1],
  trusted: false,
};

/** A Graph's settings: what its owner set, and the defaults. */
export const settingsOf = async (
  ports: Pick<EnginePorts, "settings">,
  graph: GraphRef,
): Promise<GraphSettings> => ({
  ...DEFAULT_GRAPH_SETTINGS,
  ...(await ports.settings(graph)),
});
