import { and, eq, sql } from "drizzle-orm";
import type { ClaimKeyAnswer, ClaimKeyRequest } from "./contract.ts";
import { claimOfKey, commandOfKey, isOver, type KeyOfAgent, storedKey } from "./keys.ts";
import { keyClaims } from "./schema.ts";
import type { Scope } from "./scope.ts";

/**
 * How long a claim stands. The run's record is elsewhere, so this outlasts any: at most 7 days queued and
 * 90 days kept, and what remains for the run itself. A claim whose run is gone is given back by its agent.
 */
const CLAIM_KEPT = 180 * 24 * 60 * 60_000;

/**
 * Records that the key names a run in another project, unless it already names one. The agent need not have
 * access here, but to where its run goes: a session's keys stay where they are when it loses this project.
 */
export function claimKey(scope: Scope, request: ClaimKeyRequest): ClaimKeyAnswer {
  const { db, now } = scope;
  const key = storedKey(request.idempotency_key);
  const won = db.all<{ command_id: string }>(sql`
    insert into key_claims (agent_id, idempotency_key, graph_session_id, command_id, kept_until)
    select ${request.agent_id}, ${key}, ${request.graph_session_id}, ${request.command_id}, ${now + CLAIM_KEPT}
    where not exists (
      select 1 from commands where agent_id = ${request.agent_id} and idempotency_key = ${key}
        and (kept_until is null or kept_until > ${now}))
    on conflict (agent_id, idempotency_key) do update set
      graph_session_id = excluded.graph_session_id, command_id = excluded.command_id,
      kept_until = excluded.kept_until
    where key_claims.kept_until <= ${now}
    returning command_id`)[0];
  if (won) {
    scope.effects.due(now + CLAIM_KEPT);
    return { ok: true, command_id: request.command_id };
  }
  const own = commandOfKey(scope, request);
  const earlier = own && !isOver(own, now) ? own : claimOfKey(scope, request);
  if (!earlier) throw new Error("a key was neither claimed nor taken");
  return earlier.graph_session_id === request.graph_session_id
    ? { ok: true, command_id: earlier.command_id }
    : { ok: false, error: "key_conflict", command_id: earlier.command_id };
}

/** Gives a claim back if it still names this command. */
export function releaseKey({ db }: Scope, request: KeyOfAgent & { command_id: string }): void {
  db.delete(keyClaims)
    .where(
      and(
        eq(keyClaims.agent_id, request.agent_id),
        eq(keyClaims.idempotency_key, storedKey(request.idempotency_key)),
        eq(keyClaims.command_id, request.command_id),
      ),
    )
    .run();
}
