import { and, eq, sql } from "drizzle-orm";
import type { ClaimKeyAnswer, ClaimKeyRequest, KeyRequest, KeyTaken } from "./contract.ts";
import { claimOfKey, commandOfKey, isOver, type KeyOfAgent, storedKey } from "./keys.ts";
import { keyClaims } from "./schema.ts";
import type { Scope } from "./scope.ts";

/**
 * How long a claim stands, in milliseconds. The run's record is elsewhere, so this outlasts any: at most 7 days
 * queued, 90 days kept as lost, 90 more after a late result, and what remains for the run itself.
 */
const CLAIM_KEPT = 400 * 24 * 60 * 60_000;
/** How long one stands whose run was refused, in milliseconds: longer than any call to queue it can be on its way. */
const REFUSED_KEPT = 10 * 60_000;

/**
 * Records that the key names a run in another project, unless it already names one. The agent need not have
 * access here, but to where its run goes: a session's keys stay where they are when it loses this project.
 */
export function claimKey(scope: Scope, request: ClaimKeyRequest): ClaimKeyAnswer {
  const { db, now } = scope;
  const key = storedKey(request.idempotency_key);
  const kept_until = now + CLAIM_KEPT;
  const won = db.all(sql`
    insert into key_claims (agent_id, idempotency_key, graph_session_id, command_id, claimed_at, kept_until)
    select ${request.agent_id}, ${key}, ${request.graph_session_id}, ${request.command_id}, ${now}, ${kept_until}
    where not exists (
      select 1 from commands where agent_id = ${request.agent_id} and idempotency_key = ${key}
        and (kept_until is null or kept_until > ${now}))
    on conflict (agent_id, idempotency_key) do update set
      graph_session_id = excluded.graph_session_id, command_id = excluded.command_id,
      claimed_at = excluded.claimed_at, kept_until = excluded.kept_until,
      adopted = key_claims.kept_until > ${now}
    where key_claims.kept_until <= ${now} or key_claims.command_id = ${request.replaces ?? null}
    returning command_id`);
  if (won.length > 0) {
    scope.effects.due(kept_until);
    return { ok: true };
  }
  const taken = findKey(scope, request);
  if (!taken) throw new Error("a key was neither claimed nor taken");
  if (taken.age_ms === null) return taken;
  if (taken.command_id === request.command_id) return { ok: true };
  adopt(scope, request);
  return taken;
}

/** What the key names here: a run whose record stands, or a claim. */
export function findKey(scope: Scope, request: KeyRequest): KeyTaken | undefined {
  const run = commandOfKey(scope, request);
  if (run && !isOver(run, scope.now)) return taken(request, run, null);
  const claim = claimOfKey(scope, request);
  return claim && taken(request, claim, scope.now - claim.claimed_at);
}

const taken = (
  request: KeyRequest,
  { command_id, graph_session_id }: { command_id: string; graph_session_id: string },
  age_ms: number | null,
): KeyTaken => ({
  ok: false,
  error: "key_taken",
  command_id,
  same_session: graph_session_id === request.graph_session_id,
  age_ms,
});

/** Another call may queue the claimed run from now on, so its claimer's refusal no longer ends the claim. */
function adopt({ db }: Scope, key: KeyOfAgent): void {
  db.update(keyClaims)
    .set({ adopted: true, kept_until: sql`${keyClaims.claimed_at} + ${CLAIM_KEPT}` })
    .where(and(ofKey(key), eq(keyClaims.adopted, false)))
    .run();
}

/** Lets a claim run out soon, if it still names this command and is its claimer's alone. */
export function releaseKey({ db, now, effects }: Scope, request: KeyOfAgent & { command_id: string }): void {
  const kept_until = now + REFUSED_KEPT;
  db.update(keyClaims)
    .set({ kept_until })
    .where(and(ofKey(request), eq(keyClaims.command_id, request.command_id), eq(keyClaims.adopted, false)))
    .run();
  effects.due(kept_until);
}

const ofKey = ({ agent_id, idempotency_key }: KeyOfAgent) =>
  and(eq(keyClaims.agent_id, agent_id), eq(keyClaims.idempotency_key, storedKey(idempotency_key)));
