import type { CallIntent, CallStore } from "./contract.ts";
import type { Sql } from "./sql.ts";

export function callStore(sql: Sql): CallStore {
  return {
    open: (intent) =>
      sql.atomically(() => {
        sql.run(
          "INSERT INTO calls (fingerprint, idempotency_key, command_id) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
          intent.fingerprint,
          intent.idempotency_key,
          intent.command_id,
        );
        return (
          sql.get<CallIntent>(
            "SELECT fingerprint, idempotency_key, command_id FROM calls WHERE fingerprint = ?",
            intent.fingerprint,
          ) ?? intent
        );
      }),
    noteTicket(fingerprint, commandId) {
      sql.run("UPDATE calls SET command_id = ? WHERE fingerprint = ?", commandId, fingerprint);
    },
    close(fingerprint) {
      sql.run("DELETE FROM calls WHERE fingerprint = ?", fingerprint);
    },
  };
}
