import { completion } from "../../src/protocol/completion.ts";
import type { DeadLetter, OutboxItem, OutboxStore } from "./contract.ts";
import type { Sql } from "./sql.ts";

const COLUMNS = "command_id, project_id, attempt_id, completion, truncated, last_failure";

type Row<Item extends OutboxItem> = Omit<Item, "completion" | "truncated"> & {
  completion: string;
  truncated: number;
};
const toItem = <Item extends OutboxItem>(row: Row<Item>) => ({
  ...row,
  completion: completion.parse(JSON.parse(row.completion)),
  truncated: row.truncated === 1,
});

export function outboxStore(sql: Sql): OutboxStore {
  const remove = (commandId: string) => sql.run("DELETE FROM outbox WHERE command_id = ?", commandId) === 1;
  return {
    pending: () => sql.all<Row<OutboxItem>>(`SELECT ${COLUMNS} FROM outbox ORDER BY n`).map(toItem),
    pendingIds: () =>
      sql
        .all<{ command_id: string }>("SELECT command_id FROM outbox ORDER BY n")
        .map((row) => row.command_id),
    find(commandId) {
      const row = sql.get<Row<OutboxItem>>(`SELECT ${COLUMNS} FROM outbox WHERE command_id = ?`, commandId);
      return row && toItem(row);
    },
    delivered: remove,
    replaceTruncated: (commandId, shorter) =>
      sql.run(
        "UPDATE outbox SET completion = ?, truncated = 1 WHERE command_id = ? AND truncated = 0",
        JSON.stringify(shorter),
        commandId,
      ) === 1,
    noteFailure(commandId, reason) {
      sql.run(
        "UPDATE outbox SET last_failure = ? WHERE command_id = ? AND last_failure IS NOT ?",
        reason,
        commandId,
        reason,
      );
    },
    bury: (commandId, reason, at) =>
      sql.atomically(() => {
        const moved = sql.run(
          `INSERT OR REPLACE INTO dead_letters (${COLUMNS}, reason, buried_at)
           SELECT ${COLUMNS}, ?, ? FROM outbox WHERE command_id = ?`,
          reason,
          at,
          commandId,
        );
        return moved === 1 && remove(commandId);
      }),
    deadLetters: () =>
      sql
        .all<Row<DeadLetter>>(`SELECT ${COLUMNS}, reason, buried_at FROM dead_letters ORDER BY n`)
        .map((row) => toItem<DeadLetter>(row)),
    revive: (commandId) =>
      sql.atomically(() => {
        const moved = sql.run(
          `INSERT INTO outbox (${COLUMNS}) SELECT ${COLUMNS} FROM dead_letters WHERE command_id = ?
           ON CONFLICT DO NOTHING`,
          commandId,
        );
        return moved === 1 && sql.run("DELETE FROM dead_letters WHERE command_id = ?", commandId) === 1;
      }),
    discard: (commandId) => sql.run("DELETE FROM dead_letters WHERE command_id = ?", commandId) === 1,
  };
}

/** Moves every item to the dead letters, and says how many there were. Part of the caller's write. */
export function buryAll(sql: Sql, reason: string, at: number): number {
  sql.run(
    `INSERT OR REPLACE INTO dead_letters (${COLUMNS}, reason, buried_at) SELECT ${COLUMNS}, ?, ? FROM outbox ORDER BY n`,
    reason,
    at,
  );
  return sql.run("DELETE FROM outbox");
}

/** Part of the caller's write. */
export function putInOutbox(sql: Sql, item: OutboxItem): void {
  sql.run(
    `INSERT INTO outbox (${COLUMNS}) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
    item.command_id,
    item.project_id,
    item.attempt_id,
    JSON.stringify(item.completion),
    Number(item.truncated),
    item.last_failure,
  );
}
