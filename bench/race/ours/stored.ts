import { DatabaseSync } from "node:sqlite";
import { argumentsJson, resultJson } from "../payload.ts";

/** The outcome a laptop sends, as the object stores it. */
export const outcome = (resultText: string) => ({
  execution_id: "00000000-0000-4000-8000-000000000000",
  status: "completed" as const,
  result: resultText,
});

/** The id of a stored run: a command's UUID in the project `prj_` + `number`. */
export const storedCommandId = (number: string, index: number): string =>
  `${number.slice(0, 8)}-${number.slice(8)}-8000-8000-${index.toString(16).padStart(12, "0")}`;

/** Whose the stored runs are. */
export interface StoredOwner {
  /** The project's number: 12 hex digits. */
  number: string;
  agent_id: string;
  device_id: string;
  graph_session_id: string;
}

/**
 * Writes finished runs `from` to `to` - 1 into an object's database as the queue leaves them. Nobody else
 * has it open. Durable at its end, not between.
 */
export function fillObject(file: string, owner: StoredOwner, from: number, to: number): void {
  const database = new DatabaseSync(file);
  // Without a journal each page is written once; nothing else of the database matters until it is done.
  database.exec("pragma synchronous = off; pragma journal_mode = off; pragma cache_size = -400000; begin");
  const command = database.prepare(`
    insert into commands (command_id, agent_id, idempotency_key, graph_session_id, device_id, slug, state,
      attempt_id, queued_at, expires_at, started_at, lease_until, finished_at, kept_until)
    values (?, ?, ?, ?, ?, 'race', 'completed', '00000000-0000-4000-8000-000000000000', ?, ?, ?, ?, ?, ?)
    returning seq`);
  const payload = database.prepare(
    "insert into payloads (seq, arguments_json, outcome_json) values (?, ?, ?)",
  );
  const at = Date.now() - 86_400_000;
  const kept = at + 30 * 86_400_000;
  const { number, agent_id, device_id, graph_session_id } = owner;
  for (let index = from; index < to; index++) {
    const key = `stored-${index}`;
    const row = command.get(
      storedCommandId(number, index),
      agent_id,
      JSON.stringify(key),
      graph_session_id,
      device_id,
      at,
      at,
      at,
      at,
      at,
      kept + index,
    );
    const result = JSON.stringify(outcome(resultJson(key, index)));
    payload.run(row?.seq ?? null, argumentsJson(key, index), result);
  }
  database.exec("commit; pragma synchronous = full; pragma journal_mode = wal");
  database.close();
}
