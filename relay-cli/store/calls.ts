import type { AgentLogin, CallStore } from "./contract.ts";
import type { Sql } from "./sql.ts";

export function callStore(sql: Sql): CallStore {
  return {
    open: (fingerprint, newKey) =>
      sql.atomically(() => {
        sql.run(
          "INSERT INTO calls (fingerprint, idempotency_key) VALUES (?, ?) ON CONFLICT DO NOTHING",
          fingerprint,
          newKey,
        );
        const row = sql.get<{ idempotency_key: string }>(
          "SELECT idempotency_key FROM calls WHERE fingerprint = ?",
          fingerprint,
        );
        return row?.idempotency_key ?? newKey;
      }),
    close(fingerprint) {
      sql.run("DELETE FROM calls WHERE fingerprint = ?", fingerprint);
    },
    login: (serverUrl) =>
      sql.get<AgentLogin>("SELECT client, tokens FROM agent_logins WHERE server_url = ?", serverUrl) ?? {
        client: null,
        tokens: null,
      },
    saveLogin(serverUrl, login) {
      sql.run(
        `INSERT INTO agent_logins (server_url, client, tokens) VALUES (?1, ?2, ?3)
         ON CONFLICT (server_url) DO UPDATE SET client = coalesce(?2, client), tokens = coalesce(?3, tokens)`,
        serverUrl,
        login.client ?? null,
        login.tokens ?? null,
      );
    },
    dropTokens(serverUrl, tokens) {
      sql.run("UPDATE agent_logins SET tokens = NULL WHERE server_url = ? AND tokens = ?", serverUrl, tokens);
    },
  };
}
