import type { EngineEvent, RunOutcome } from "../engine/contract.ts";
import type { FinishedRun, HistoryEntry, HistoryStore } from "./contract.ts";
import { pruneHistory } from "./history-prune.ts";
import type { Sql } from "./sql.ts";

type Row = Omit<HistoryEntry, "finished_before_stop"> & { finished_before_stop: number };
const COLUMNS = `execution_id, channel, command_id, project_id, graph_session_id, slug, agent_name,
  arguments_json, status, result_json, error, total_tokens, reported_cost, finished_before_stop, started_at, finished_at`;
const toEntry = (row: Row): HistoryEntry => ({
  ...row,
  finished_before_stop: row.finished_before_stop === 1,
});

/** What the record says of a local run whose command did not live to see its end. */
const KILLED_OUTCOME: RunOutcome = {
  status: "failed",
  error: "The command was killed while the Graph was running",
  total_tokens: null,
  reported_cost: null,
};

export function historyStore(sql: Sql): HistoryStore {
  return {
    begin(entry, processId) {
      sql.run(
        `INSERT INTO history (execution_id, channel, command_id, project_id, graph_session_id, slug, agent_name,
           arguments_json, status, started_at, process_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'running', ?, ?)`,
        entry.execution_id,
        entry.channel,
        entry.command_id,
        entry.project_id,
        entry.graph_session_id,
        entry.slug,
        entry.agent_name,
        entry.arguments_json,
        entry.started_at,
        processId,
      );
    },
    finish: (record) => recordEnd(sql, record),
    closeDead(isAlive, at) {
      const running = sql.all<{ execution_id: string; process_id: number }>(
        "SELECT execution_id, process_id FROM history WHERE process_id IS NOT NULL AND finished_at IS NULL",
      );
      for (const { execution_id, process_id } of running)
        if (!isAlive(process_id)) recordEnd(sql, { execution_id, outcome: KILLED_OUTCOME, finished_at: at });
    },
    addEvents(executionId, events) {
      sql.atomically(() => {
        let n =
          sql.get<{ n: number }>(
            "SELECT coalesce(max(n), 0) AS n FROM history_events WHERE execution_id = ?",
            executionId,
          )?.n ?? 0;
        for (const { at, event } of events)
          sql.run(
            "INSERT INTO history_events (execution_id, n, at, event) VALUES (?, ?, ?, ?)",
            executionId,
            ++n,
            at,
            JSON.stringify(event),
          );
      });
    },
    list: (limit, slug) =>
      (slug === undefined
        ? sql.all<Row>(`SELECT ${COLUMNS} FROM history ORDER BY n DESC LIMIT ?`, limit)
        : sql.all<Row>(`SELECT ${COLUMNS} FROM history WHERE slug = ? ORDER BY n DESC LIMIT ?`, slug, limit)
      ).map(toEntry),
    find(executionId) {
      const row = sql.get<Row>(`SELECT ${COLUMNS} FROM history WHERE execution_id = ?`, executionId);
      return row && toEntry(row);
    },
    events: (executionId) =>
      sql
        .all<{ at: number; event: string }>(
          "SELECT at, event FROM history_events WHERE execution_id = ? ORDER BY n",
          executionId,
        )
        .map(({ at, event }) => ({ at, event: JSON.parse(event) as EngineEvent })),
    prune: (limits) => pruneHistory(sql, limits),
  };
}

/** The full record of an ended run. Part of the caller's write. */
export function recordEnd(sql: Sql, { execution_id, outcome, finished_at }: FinishedRun): void {
  sql.run(
    `UPDATE history SET status = ?, result_json = ?, error = ?, total_tokens = ?, reported_cost = ?,
       finished_before_stop = ?, finished_at = ? WHERE execution_id = ? AND finished_at IS NULL`,
    outcome.status,
    outcome.result_json ?? null,
    outcome.error ?? null,
    outcome.total_tokens,
    outcome.reported_cost,
    Number(outcome.finished_before_stop ?? false),
    finished_at,
    execution_id,
  );
}
