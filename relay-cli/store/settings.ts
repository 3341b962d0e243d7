import type { ApprovalSetting } from "../engine/approvals.ts";
import type { GraphSettings } from "../engine/settings.ts";
import type { SettingsStore } from "./contract.ts";
import type { Sql } from "./sql.ts";

export function settingsStore(sql: Sql): SettingsStore {
  const limitsOf = (id: string) => {
    const row = sql.get<{ settings: string }>(
      "SELECT settings FROM graph_settings WHERE graph_session_id = ?",
      id,
    );
    return row ? (JSON.parse(row.settings) as Partial<GraphSettings>) : {};
  };
  return {
    of(id) {
      const folders = sql.all<{ path: string; write: number }>(
        "SELECT path, write FROM folder_grants WHERE graph_session_id = ? ORDER BY granted_at, path",
        id,
      );
      const approvals = sql.all<{ tool: string; setting: ApprovalSetting }>(
        "SELECT tool, setting FROM approvals WHERE graph_session_id = ? ORDER BY tool",
        id,
      );
      return {
        ...limitsOf(id),
        folders: folders.map(({ path, write }) => ({ path, write: write === 1 })),
        approvals: Object.fromEntries(approvals.map(({ tool, setting }) => [tool, setting])),
      };
    },
    grantFolder(id, path, write) {
      sql.run(
        `INSERT INTO folder_grants (graph_session_id, path, write, granted_at)
           VALUES (?, ?, ?, (SELECT coalesce(max(granted_at), 0) + 1 FROM folder_grants))
         ON CONFLICT (graph_session_id, path) DO UPDATE SET write = excluded.write`,
        id,
        path,
        Number(write),
      );
    },
    revokeFolder: (id, path) =>
      sql.run("DELETE FROM folder_grants WHERE graph_session_id = ? AND path = ?", id, path) === 1,
    setApproval(id, tool, setting) {
      sql.run(
        "INSERT OR REPLACE INTO approvals (graph_session_id, tool, setting) VALUES (?, ?, ?)",
        id,
        tool,
        setting,
      );
    },
    clearApproval: (id, tool) =>
      sql.run("DELETE FROM approvals WHERE graph_session_id = ? AND tool = ?", id, tool) === 1,
    setLimits(id, limits) {
      sql.atomically(() => {
        const settings = JSON.stringify({ ...limitsOf(id), ...limits });
        sql.run(
          "INSERT OR REPLACE INTO graph_settings (graph_session_id, settings) VALUES (?, ?)",
          id,
          settings,
        );
      });
    },
  };
}
