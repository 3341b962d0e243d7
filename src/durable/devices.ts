import { and, eq, isNull, lte, or, type SQL } from "drizzle-orm";
import type { CommandState } from "../protocol/states.ts";
import type { DeviceRefusal } from "./contract.ts";
import { commands, devices } from "./schema.ts";
import type { Scope } from "./scope.ts";

/** A lasting note of a device is renewed no more often than this: a running command gives a sign every 3 s. */
const NOTE_EVERY = 30_000;

export const refusal = (error: DeviceRefusal["error"]): DeviceRefusal => ({ ok: false, error });

/** Notes that the device is there. `false`: it is not on the list. */
export function noteSign({ db, now, presences }: Scope, device_id: string): boolean {
  const own = eq(devices.device_id, device_id);
  const noted = db
    .update(devices)
    .set({ last_seen_at: now })
    .where(and(own, or(isNull(devices.last_seen_at), lte(devices.last_seen_at, now - NOTE_EVERY))))
    .returning({ id: devices.device_id })
    .get();
  const listed = noted ?? db.select({ id: devices.device_id }).from(devices).where(own).get();
  if (listed) presences.note(device_id, now);
  return listed !== undefined;
}

/** The state of one command; `undefined` if there is none such. */
export function stateOf({ db }: Scope, which: SQL | undefined): CommandState | undefined {
  return db.select({ state: commands.state }).from(commands).where(which).get()?.state;
}
