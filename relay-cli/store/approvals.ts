import type { ApprovalAnswer, ApprovalStore, Question } from "./contract.ts";
import type { Sql } from "./sql.ts";

const COLUMNS = "n, execution_id, run_id, graph, tool, request, asked_at, expires_at";

export function approvalStore(sql: Sql): ApprovalStore {
  return {
    ask: (question) =>
      sql.atomically(() => {
        // Answered and withdrawn questions have served their time; the history has what became of them.
        sql.run(
          "DELETE FROM approval_requests WHERE closed = 1 OR expires_at <= ?",
          question.asked_at - 86_400_000,
        );
        sql.run(
          `INSERT INTO approval_requests (execution_id, run_id, graph, tool, request, asked_at, expires_at)
             VALUES (?, ?, ?, ?, ?, ?, ?)`,
          question.execution_id,
          question.run_id,
          question.graph,
          question.tool,
          question.request,
          question.asked_at,
          question.expires_at,
        );
        return sql.get<{ n: number }>("SELECT last_insert_rowid() AS n")?.n ?? 0;
      }),
    open: (now) =>
      sql.all<Question>(
        `SELECT ${COLUMNS} FROM approval_requests WHERE closed = 0 AND answer IS NULL AND expires_at > ? AND alive_until > ? ORDER BY n`,
        now,
        now,
      ),
    answer: (n, answer, by, now) =>
      sql.atomically(() => {
        const won = sql.run(
          `UPDATE approval_requests SET answer = ?, answered_by = ?
             WHERE n = ? AND closed = 0 AND answer IS NULL AND expires_at > ? AND alive_until > ?`,
          answer,
          by,
          n,
          now,
          now,
        );
        if (won === 1 && answer === "always")
          sql.run(
            `INSERT OR REPLACE INTO approvals (graph_session_id, tool, setting)
               SELECT g.graph_session_id, r.tool, 'allow' FROM approval_requests r JOIN graphs g ON g.slug = r.graph
               WHERE r.n = ?`,
            n,
          );
        return won === 1;
      }),
    answerTo(n) {
      const row = sql.get<{ answer: ApprovalAnswer | null; answered_by: string }>(
        "SELECT answer, answered_by FROM approval_requests WHERE n = ?",
        n,
      );
      return row && row.answer !== null ? { answer: row.answer, by: row.answered_by } : undefined;
    },
    keepAlive(n, until) {
      sql.run("UPDATE approval_requests SET alive_until = ? WHERE n = ?", until, n);
    },
    withdraw(n) {
      sql.run("UPDATE approval_requests SET closed = 1 WHERE n = ?", n);
    },
  };
}
