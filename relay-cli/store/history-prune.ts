import type { Sql } from "./sql.ts";

/** Runs that go in one write, so that a long history does not hold up whoever else writes. */
const BATCH = 200;

/** What `HistoryStore.prune` does. A run that has not ended stays, whatever its age and size. */
export function pruneHistory(
  sql: Sql,
  { endedBefore, characters }: { endedBefore: number; characters: number },
): number {
  let gone = 0;
  for (;;) {
    const old = sql.all<{ execution_id: string }>(
      "SELECT execution_id FROM history WHERE finished_at < ? ORDER BY n LIMIT ?",
      endedBefore,
      BATCH,
    );
    if (old.length === 0) break;
    gone += remove(sql, old);
  }
  return gone + pruneBySize(sql, characters);
}

function pruneBySize(sql: Sql, characters: number): number {
  // What is in use of the file is never less than what is in the history: a small one needs no sum over all events.
  const pages = sql.get<{ bytes: number }>(
    `SELECT (page_count - freelist_count) * page_size AS bytes
       FROM pragma_page_count, pragma_freelist_count, pragma_page_size`,
  );
  if ((pages?.bytes ?? 0) <= characters) return 0;
  const sizes = sql.all<{ execution_id: string; size: number; ended: number }>(
    `SELECT execution_id, finished_at IS NOT NULL AS ended,
       length(arguments_json) + coalesce(length(result_json), 0) + coalesce(length(error), 0) +
       (SELECT coalesce(sum(length(event)), 0) FROM history_events e WHERE e.execution_id = h.execution_id) AS size
     FROM history h ORDER BY n DESC`,
  );
  let kept = 0;
  const over = sizes.filter(({ size, ended }) => {
    kept += size;
    return kept > characters && ended === 1;
  });
  let gone = 0;
  for (let i = 0; i < over.length; i += BATCH) gone += remove(sql, over.slice(i, i + BATCH));
  return gone;
}

const remove = (sql: Sql, runs: readonly { execution_id: string }[]): number =>
  sql.atomically(() =>
    runs.reduce(
      (sum, { execution_id }) =>
        sum + sql.run("DELETE FROM history WHERE execution_id = ? AND finished_at IS NOT NULL", execution_id),
      0,
    ),
  );
