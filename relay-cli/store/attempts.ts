import type { Attempt, AttemptStore, NewAttempt } from "./contract.ts";
import { recordEnd } from "./history.ts";
import { putInOutbox } from "./outbox.ts";
import type { Sql } from "./sql.ts";

const COLUMNS =
  "command_id, attempt_id, execution_id, project_id, graph_session_id, slug, arguments_json, agent_name, state, reason";

export function attemptStore(sql: Sql): AttemptStore {
  /** False if the command is in the journal already. */
  const insert = (attempt: NewAttempt, state: Attempt["state"], reason: string | null): boolean =>
    sql.run(
      `INSERT INTO attempts (${COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
      attempt.command_id,
      attempt.attempt_id,
      attempt.execution_id,
      attempt.project_id,
      attempt.graph_session_id,
      attempt.slug,
      attempt.arguments_json,
      attempt.agent_name,
      state,
      reason,
    ) === 1;
  const end = (commandId: string, from: "prepared" | "started", reason: string | null): boolean =>
    sql.run(
      "UPDATE attempts SET state = 'ended', reason = ?, arguments_json = '{}' WHERE command_id = ? AND state = ?",
      reason,
      commandId,
      from,
    ) === 1;

  return {
    find: (commandId) => sql.get<Attempt>(`SELECT ${COLUMNS} FROM attempts WHERE command_id = ?`, commandId),
    inState: (state) => sql.all<Attempt>(`SELECT ${COLUMNS} FROM attempts WHERE state = ? ORDER BY n`, state),
    prepare: (attempt) => insert(attempt, "prepared", null),
    begin: (commandId, at) =>
      sql.atomically(() => {
        const won = sql.run(
          `UPDATE attempts SET state = 'started' WHERE command_id = ? AND state = 'prepared' AND EXISTS (
             SELECT 1 FROM shares JOIN projects USING (project_id) JOIN graphs USING (graph_session_id)
             WHERE shares.project_id = attempts.project_id AND projects.enabled = 1
               AND shares.graph_session_id = attempts.graph_session_id AND graphs.slug = attempts.slug)`,
          commandId,
        );
        if (won === 0) return false;
        sql.run(
          `INSERT INTO history (execution_id, channel, command_id, project_id, graph_session_id, slug,
             agent_name, arguments_json, status, started_at)
           SELECT execution_id, 'graph:external:' || command_id, command_id, project_id, graph_session_id, slug,
             agent_name, arguments_json, 'running', ? FROM attempts WHERE command_id = ?`,
          at,
          commandId,
        );
        return true;
      }),
    drop: (commandId, reason) => end(commandId, "prepared", reason),
    refuse: (attempt, outbox) =>
      sql.atomically(() => {
        const reason = outbox.completion.error ?? null;
        const won =
          insert({ ...attempt, arguments_json: "{}" }, "ended", reason) ||
          end(attempt.command_id, "prepared", reason);
        if (won) putInOutbox(sql, outbox);
        return won;
      }),
    finish: (commandId, record, outbox) =>
      sql.atomically(() => {
        if (!end(commandId, "started", null)) return false;
        recordEnd(sql, record);
        putInOutbox(sql, outbox);
        return true;
      }),
    disown: () =>
      sql.atomically(() => {
        const reason = "left to the original of this copied state file";
        sql.run(
          `UPDATE history SET status = 'failed', error = ? WHERE status = 'running' AND execution_id IN
             (SELECT execution_id FROM attempts WHERE state = 'started')`,
          reason,
        );
        return sql.run("UPDATE attempts SET state = 'ended', reason = ? WHERE state <> 'ended'", reason);
      }),
    prune: (keep) =>
      sql.run(
        `DELETE FROM attempts WHERE state = 'ended' AND n <= (SELECT max(n) FROM attempts) - ?
           AND command_id NOT IN (SELECT command_id FROM outbox)`,
        keep,
      ),
  };
}
