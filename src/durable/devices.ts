import { and, eq, isNull, lte, or } from "drizzle-orm";
import type { DeviceRefusal } from "./contract.ts";
import { devices } from "./schema.ts";
import { given, type Scope, statements } from "./scope.ts";

/** A lasting note of a device is renewed no more often than this: a running command gives a sign every 3 s. */
const NOTE_EVERY = 30_000;

const thisDevice = eq(devices.device_id, given("device_id"));

const to = statements((db) => ({
  note: db
    .update(devices)
    .set({ last_seen_at: given("now") })
    .where(
      and(thisDevice, or(isNull(devices.last_seen_at), lte(devices.last_seen_at, given("noted_before")))),
    )
    .returning({ id: devices.device_id })
    .prepare(),
  find: db.select({ sessions_digest: devices.sessions_digest }).from(devices).where(thisDevice).prepare(),
}));

/** Notes that the device is there. `false`: it is not on the list. */
export function noteSign(scope: Scope, device_id: string): boolean {
  const { now } = scope;
  const noted = to(scope).note.get({ device_id, now, noted_before: now - NOTE_EVERY });
  const listed = noted ?? to(scope).find.get({ device_id });
  if (listed) scope.presences.note(device_id, now);
  return listed !== undefined;
}

/** A device opens its wake socket, which is a sign of it. Writes nothing. */
export function connect(scope: Scope, { device_id }: { device_id: string }): { ok: true } | DeviceRefusal {
  if (!isDevice(scope, device_id)) return refusal("device_removed");
  scope.presences.note(device_id, scope.now);
  return { ok: true };
}

/** The digest of the device's sessions as D1 holds them, `""` before the first; undefined: it is not on the object's list. */
export const storedDigest = (scope: Pick<Scope, "db">, device_id: string): string | undefined =>
  to(scope).find.get({ device_id })?.sessions_digest;

/** Whether the device is on the object's list. */
export const isDevice = (scope: Pick<Scope, "db">, device_id: string): boolean =>
  storedDigest(scope, device_id) !== undefined;

export const refusal = (error: DeviceRefusal["error"]): DeviceRefusal => ({ ok: false, error });
