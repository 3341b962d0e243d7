import { eq, sql } from "drizzle-orm";
import { EMPTY_DIGEST } from "../protocol/relay-api.ts";
import type { EnqueueAnswer, EnqueueRequest } from "./contract.ts";
import { storedDigest } from "./devices.ts";
import { claimOfKey, commandOfKey, isOver, storedKey } from "./keys.ts";
import { commands, payloads } from "./schema.ts";
import { type CommandRow, given, inState, isAgent, type Scope, statements } from "./scope.ts";
import { deleteRecords } from "./time.ts";
import { viewRun } from "./view.ts";

const find = statements((db) => ({
  command: db
    .select()
    .from(commands)
    .where(eq(commands.seq, given("seq")))
    .prepare(),
  arguments: db
    .select({ arguments_json: payloads.arguments_json })
    .from(payloads)
    .where(eq(payloads.seq, given("seq")))
    .prepare(),
  insertArguments: db
    .insert(payloads)
    .values({ seq: sql.placeholder("seq"), arguments_json: sql.placeholder("arguments_json") })
    .prepare(),
  queuedOfAgent: db
    .select({ n: sql<number>`count(*) filter (where ${commands.agent_id} = ${given("agent_id")})` })
    .from(commands)
    .where(inState("queued"))
    .prepare(),
}));

/** Queues one run, or finds the one this key already names (design section 4). */
export function enqueue(scope: Scope, request: EnqueueRequest): EnqueueAnswer {
  if (!isAgent(scope, request.agent_id)) return { ok: false, error: "access_removed" };
  // A run that the key names already is found all the same: its device may have been removed since.
  const digest = storedDigest(scope, request.device_id);
  const takesRuns = digest !== undefined && digest !== EMPTY_DIGEST;
  const row = takesRuns && !request.repeat_only ? insertCommand(scope, request) : undefined;
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
  const claim = claimed(scope, request);
  if (claim) return claim;
  if (request.repeat_only) return { ok: false, error: "new_key" };
  if (digest === undefined) return { ok: false, error: "access_removed" };
  return takesRuns ? full(scope, request) : { ok: false, error: "not_shared" };
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
  find(scope).insertArguments.run({ seq: won.seq, arguments_json: request.arguments_json });
  return find(scope).command.get({ seq: won.seq });
}

/** The key is taken: by the same request, or by another. */
function repeated(scope: Scope, request: EnqueueRequest, earlier: CommandRow): EnqueueAnswer {
  const payload = find(scope).arguments.get({ seq: earlier.seq });
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
function full(scope: Scope, request: EnqueueRequest): EnqueueAnswer {
  const { settings } = scope;
  const own = find(scope).queuedOfAgent.get({ agent_id: request.agent_id })?.n ?? 0;
  return own >= settings.max_queued_per_agent
    ? { ok: false, error: "queue_full", scope: "agent", limit: settings.max_queued_per_agent }
    : { ok: false, error: "queue_full", scope: "project", limit: settings.max_queued_per_project };
}
