import { and, eq, gt, sql } from "drizzle-orm";
import type { ClaimKeyAnswer, ClaimKeyRequest, EnqueueAnswer, EnqueueRequest } from "./contract.ts";
import { commands, devices, keyClaims, payloads } from "./schema.ts";
import { type CommandRow, inState, isAgent, type Scope } from "./scope.ts";
import { deleteRecords } from "./time.ts";
import { viewRun } from "./view.ts";

/**
 * How long a claim stands. The run's record is elsewhere, so this outlasts any: at most 7 days queued and
 * 90 days kept, and what remains for the run itself. A claim whose run is gone is given back by its agent.
 */
const CLAIM_KEPT = 180 * 24 * 60 * 60_000;

/** A key as rows hold it: SQL text would turn every lone surrogate into the same character. */
const storedKey = (key: string): string => JSON.stringify(key);

/** Queues one run, or finds the one this key already names (design section 4). */
export function enqueue(scope: Scope, request: EnqueueRequest): EnqueueAnswer {
  if (!isAgent(scope, request.agent_id) || !isDevice(scope, request.device_id))
    return { ok: false, error: "access_removed" };
  const row = insertCommand(scope, request);
  if (row) {
    scope.effects.due(row.expires_at);
    scope.effects.wake(row.device_id);
    return { ok: true, created: true, run: viewRun(scope, row) };
  }
  const earlier = commandOfKey(scope, request);
  if (earlier && isOver(earlier, scope.now)) {
    // Its key is free again; only the alarm has not come round to deleting it.
    deleteRecords(scope.db, [earlier.seq]);
    return enqueue(scope, request);
  }
  if (earlier) return repeated(scope, request, earlier);
  return claimed(scope, request) ?? full(scope, request);
}

/** The one guarded write: the key is free here and unclaimed, and neither cap is reached. */
function insertCommand(scope: Scope, request: EnqueueRequest): CommandRow | undefined {
  const { db, now, settings } = scope;
  const key = storedKey(request.idempotency_key);
  const won = db.all<{ seq: number }>(sql`
    insert into commands
      (command_id, agent_id, idempotency_key, graph_session_id, device_id, slug, state, queued_at, expires_at)
    select ${request.command_id}, ${request.agent_id}, ${key}, ${request.graph_session_id},
      ${request.device_id}, ${request.slug}, 'queued', ${now}, ${now + settings.queue_expiry_seconds * 1000}
    where (
        select count(*) < ${settings.max_queued_per_project}
          and count(*) filter (where agent_id = ${request.agent_id}) < ${settings.max_queued_per_agent}
        from commands indexed by commands_queued where state = 'queued')
      and not exists (
        select 1 from key_claims where agent_id = ${request.agent_id} and idempotency_key = ${key}
          and command_id <> ${request.command_id} and kept_until > ${now})
    on conflict (agent_id, idempotency_key) do nothing
    returning seq`)[0];
  if (!won) return undefined;
  db.insert(payloads).values({ seq: won.seq, arguments_json: request.arguments_json }).run();
  return db.select().from(commands).where(eq(commands.seq, won.seq)).get();
}

/** The key is taken: by the same request, or by another. */
function repeated(scope: Scope, request: EnqueueRequest, earlier: CommandRow): EnqueueAnswer {
  const payload = scope.db
    .select({ arguments_json: payloads.arguments_json })
    .from(payloads)
    .where(eq(payloads.seq, earlier.seq))
    .get();
  const same =
    earlier.graph_session_id === request.graph_session_id &&
    payload?.arguments_json === request.arguments_json;
  return same
    ? { ok: true, created: false, run: viewRun(scope, earlier) }
    : { ok: false, error: "key_conflict", run: { command_id: earlier.command_id, status: earlier.state } };
}

function claimed(scope: Scope, request: EnqueueRequest): EnqueueAnswer | undefined {
  const claim = claimOfKey(scope, request);
  if (!claim || claim.command_id === request.command_id) return undefined;
  return { ok: false, error: "key_claimed", command_id: claim.command_id };
}

/** Which cap was reached; the agent's own first, since it can do something about that. */
function full({ db, settings }: Scope, request: EnqueueRequest): EnqueueAnswer {
  const row = db
    .select({ own: sql<number>`count(*) filter (where ${commands.agent_id} = ${request.agent_id})` })
    .from(commands)
    .where(inState("queued"))
    .get();
  return (row?.own ?? 0) >= settings.max_queued_per_agent
    ? { ok: false, error: "queue_full", scope: "agent", limit: settings.max_queued_per_agent }
    : { ok: false, error: "queue_full", scope: "project", limit: settings.max_queued_per_project };
}

/** Records that the key names a run in another project, unless it already names one. */
export function claimKey(scope: Scope, request: ClaimKeyRequest): ClaimKeyAnswer {
  const { db, now } = scope;
  if (!isAgent(scope, request.agent_id)) return { ok: false, error: "access_removed" };
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
export function releaseKey(
  { db }: Scope,
  request: { agent_id: string; idempotency_key: string; command_id: string },
): void {
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

const isOver = (row: CommandRow, now: number): boolean => row.kept_until !== null && row.kept_until <= now;

interface KeyOfAgent {
  agent_id: string;
  idempotency_key: string;
}

function commandOfKey({ db }: Scope, { agent_id, idempotency_key }: KeyOfAgent): CommandRow | undefined {
  const key = storedKey(idempotency_key);
  return db
    .select()
    .from(commands)
    .where(and(eq(commands.agent_id, agent_id), eq(commands.idempotency_key, key)))
    .get();
}

function claimOfKey({ db, now }: Scope, { agent_id, idempotency_key }: KeyOfAgent) {
  const key = storedKey(idempotency_key);
  return db
    .select()
    .from(keyClaims)
    .where(
      and(
        eq(keyClaims.agent_id, agent_id),
        eq(keyClaims.idempotency_key, key),
        gt(keyClaims.kept_until, now),
      ),
    )
    .get();
}

const isDevice = ({ db }: Scope, device_id: string): boolean =>
  db.select({ id: devices.device_id }).from(devices).where(eq(devices.device_id, device_id)).get() !==
  undefined;
