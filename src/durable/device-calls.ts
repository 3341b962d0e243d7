import { and, asc, eq, lt, sql } from "drizzle-orm";
import { LIMITS } from "../protocol/limits.ts";
import type { ControlResponse, StartResponse } from "../protocol/relay-api.ts";
import type { Answer, DeviceRefusal, ProjectQueueApi, SyncAnswer, SyncCall } from "./contract.ts";
import { noteSign, refusal, stateOf } from "./devices.ts";
import { agents, commands, devices, payloads } from "./schema.ts";
import { inState, leaseEnd, ofDevice, type Scope } from "./scope.ts";

type Request<K extends keyof ProjectQueueApi> = Parameters<ProjectQueueApi[K]>[0];

/** A device's pass. Writes nothing, unless the device shows a newer token than it did. */
export function sync(scope: Scope, request: SyncCall): SyncAnswer | DeviceRefusal {
  const { db, now } = scope;
  const device = db.select().from(devices).where(eq(devices.device_id, request.device_id)).get();
  if (!device) return { ok: false, error: "device_removed" };
  scope.presences.note(request.device_id, now);
  if (request.token_issued_at > device.token_issued_at)
    db.update(devices)
      .set({ token_issued_at: request.token_issued_at, last_seen_at: now })
      .where(
        and(eq(devices.device_id, request.device_id), lt(devices.token_issued_at, request.token_issued_at)),
      )
      .run();
  return {
    ok: true,
    digest_matches: device.sessions_digest === request.sessions_digest,
    commands: queuedFor(scope, request.device_id),
  };
}

/** The oldest commands of this device, as many as one answer takes; the next pass brings the rest. */
function queuedFor({ db }: Scope, device_id: string): SyncAnswer["commands"] {
  const rows = db
    .select({
      command_id: commands.command_id,
      graph_session_id: commands.graph_session_id,
      slug: commands.slug,
      arguments_json: payloads.arguments_json,
      agent_name: agents.name,
      queued_at: commands.queued_at,
      expires_at: commands.expires_at,
    })
    .from(commands)
    .innerJoin(payloads, eq(payloads.seq, commands.seq))
    .innerJoin(agents, eq(agents.agent_id, commands.agent_id))
    .where(and(inState("queued"), eq(commands.device_id, device_id)))
    .orderBy(asc(commands.seq))
    .limit(LIMITS.commandsPerSync)
    .all();
  let room = LIMITS.commandsPerSyncCharacters;
  const fitting = rows.findIndex((row) => {
    room -= row.arguments_json.length;
    return room < 0;
  });
  return fitting === -1 ? rows : rows.slice(0, fitting);
}

/** Records which set of sessions D1 holds for the device. */
export function storeDigest(
  scope: Scope,
  { device_id, sessions_digest }: Request<"storeDigest">,
): { ok: true } | DeviceRefusal {
  const won = scope.db
    .update(devices)
    .set({ sessions_digest })
    .where(eq(devices.device_id, device_id))
    .returning({ id: devices.device_id })
    .get();
  return won ? { ok: true } : { ok: false, error: "device_removed" };
}

/** queued → running, or running still for the attempt that started it, whose answer may have been lost. */
export function start(
  scope: Scope,
  { device_id, command_id, attempt_id }: Request<"start">,
): Answer<StartResponse> {
  if (!noteSign(scope, device_id)) return refusal("device_removed");
  const lease_until = leaseEnd(scope);
  const own = ofDevice(scope, device_id, command_id);
  const won =
    scope.db
      .update(commands)
      .set({ state: "running", attempt_id, started_at: scope.now, lease_until })
      .where(and(own, inState("queued")))
      .returning({ id: commands.command_id })
      .get() ??
    scope.db
      .update(commands)
      .set({ lease_until })
      .where(and(own, inState("running"), eq(commands.attempt_id, attempt_id)))
      .returning({ id: commands.command_id })
      .get();
  if (won) {
    scope.effects.due(lease_until);
    return { ok: true, value: { go: true, lease_seconds: scope.settings.lease_seconds } };
  }
  const status = stateOf(scope, own);
  return status ? { ok: true, value: { go: false, status } } : refusal("command_not_found");
}

/** Renews the lease of a running command; a lost one runs again, since its laptop is back. */
export function control(
  scope: Scope,
  { device_id, command_id, attempt_id, progress }: Request<"control">,
): Answer<ControlResponse> {
  if (!noteSign(scope, device_id)) return refusal("device_removed");
  const own = ofDevice(scope, device_id, command_id);
  const won = renew(scope, own, attempt_id, progress && JSON.stringify(progress));
  if (!won) {
    const status = stateOf(scope, own);
    return status ? { ok: true, value: { alive: false, status } } : refusal("command_not_found");
  }
  scope.effects.due(won.lease_until);
  if (progress?.state === "awaiting_approval") scope.effects.changed(command_id);
  return {
    ok: true,
    value: {
      alive: true,
      cancel_requested: won.cancel_requested,
      lease_seconds: scope.settings.lease_seconds,
    },
  };
}

/** An agent that lost its access while the run was lost could not ask for the stop. */
const stopIfUnwanted = ({ now }: Scope) => sql`case
  when ${commands.cancel_requested_at} is null
    and ${commands.agent_id} not in (select ${agents.agent_id} from ${agents}) then ${now}
  else ${commands.cancel_requested_at} end`;

/** Two guarded writes, so that the usual one touches no column of an index. */
function renew(scope: Scope, own: ReturnType<typeof ofDevice>, attempt_id: string, progress_json?: string) {
  const lease_until = leaseEnd(scope);
  const lease = { lease_until, ...(progress_json !== undefined && { progress_json }) };
  const asked = { at: commands.cancel_requested_at };
  const won =
    scope.db
      .update(commands)
      .set(lease)
      .where(and(own, inState("running"), eq(commands.attempt_id, attempt_id)))
      .returning(asked)
      .get() ??
    scope.db
      .update(commands)
      .set({
        ...lease,
        state: "running",
        finished_at: null,
        kept_until: null,
        cancel_requested_at: stopIfUnwanted(scope),
      })
      .where(and(own, inState("lost"), eq(commands.attempt_id, attempt_id)))
      .returning(asked)
      .get();
  return won && { lease_until, cancel_requested: won.at !== null };
}
