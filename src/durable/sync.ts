import { and, asc, eq, lt } from "drizzle-orm";
import { LIMITS } from "../protocol/limits.ts";
import type { DeviceRefusal, SyncAnswer, SyncCall } from "./contract.ts";
import { refusal } from "./devices.ts";
import { agents, commands, devices, payloads } from "./schema.ts";
import { given, inState, type Scope, statements } from "./scope.ts";

const thisDevice = eq(devices.device_id, given("device_id"));

const to = statements((db) => ({
  find: db.select().from(devices).where(thisDevice).prepare(),
  noteToken: db
    .update(devices)
    .set({ token_issued_at: given("token_issued_at"), last_seen_at: given("now") })
    .where(and(thisDevice, lt(devices.token_issued_at, given("token_issued_at"))))
    .prepare(),
  beginSet: db
    .update(devices)
    .set({ sessions_digest: given("storing") })
    .where(thisDevice)
    .prepare(),
  storeDigest: db
    .update(devices)
    .set({ sessions_digest: given("sessions_digest") })
    .where(and(thisDevice, eq(devices.sessions_digest, given("storing"))))
    .returning({ id: devices.device_id })
    .prepare(),
  listQueued: db
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
    .where(and(inState("queued"), eq(commands.device_id, given("device_id"))))
    .orderBy(asc(commands.seq))
    .limit(LIMITS.commandsPerSync)
    .prepare(),
}));

/** A device's pass. Writes nothing, unless the device shows a newer token than it did. */
export function sync(scope: Scope, request: SyncCall): SyncAnswer | DeviceRefusal {
  const { device_id, token_issued_at } = request;
  const device = to(scope).find.get({ device_id });
  if (!device) return refusal("device_removed");
  scope.presences.note(device_id, scope.now);
  if (token_issued_at > device.token_issued_at)
    to(scope).noteToken.run({ device_id, token_issued_at, now: scope.now });
  return {
    ok: true,
    digest_matches: device.sessions_digest === request.sessions_digest,
    set_version: begunSet(device.sessions_digest),
    commands: fitting(to(scope).listQueued.all({ device_id })),
  };
}

/** As many commands as one answer takes; the next pass brings the rest. */
function fitting(queued: SyncAnswer["commands"]): SyncAnswer["commands"] {
  let room = LIMITS.commandsPerSyncCharacters;
  const end = queued.findIndex((command) => {
    room -= command.arguments_json.length;
    return room < 0;
  });
  return end === -1 ? queued : queued.slice(0, end);
}

/** What stands in a digest's place while D1 may hold any of several sets: no digest is like it. */
const storing = (set_version: number): string => `storing ${set_version}`;
const begunSet = (sessions_digest: string): number | null => {
  const [, version] = /^storing (\d+)$/.exec(sessions_digest) ?? [];
  return version === undefined ? null : Number(version);
};

/**
 * A set of the device is about to go to D1. From here on no pass is told that its set is the one stored,
 * until this set, or a later one, is known to be.
 */
export function beginSet(
  scope: Scope,
  { device_id }: { device_id: string },
): { ok: true; set_version: number } | DeviceRefusal {
  const device = to(scope).find.get({ device_id });
  if (!device) return refusal("device_removed");
  const set_version = Math.max(scope.now, (begunSet(device.sessions_digest) ?? 0) + 1);
  to(scope).beginSet.run({ device_id, storing: storing(set_version) });
  return { ok: true, set_version };
}

/** Records which set of sessions D1 holds for the device, unless a later set was begun since. */
export function storeDigest(
  scope: Scope,
  request: { device_id: string; sessions_digest: string; set_version: number },
): { ok: true; won: boolean } | DeviceRefusal {
  const { device_id, sessions_digest, set_version } = request;
  if (to(scope).storeDigest.get({ device_id, sessions_digest, storing: storing(set_version) }))
    return { ok: true, won: true };
  return to(scope).find.get({ device_id }) ? { ok: true, won: false } : refusal("device_removed");
}
