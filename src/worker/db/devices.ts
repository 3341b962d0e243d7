import { and, asc, eq, isNull } from "drizzle-orm";
import type { Database, Statement } from "./client.ts";
import { accountAccessBump } from "./projects.ts";
import { devices, graphSessions } from "./schema.ts";

export type DeviceRow = typeof devices.$inferSelect;

export async function deviceByThumbprint(db: Database, thumbprint: string): Promise<DeviceRow | undefined> {
  const [row] = await db.select().from(devices).where(eq(devices.thumbprint, thumbprint));
  return row;
}

/** A device of this account that was not removed. */
export async function deviceOfAccount(db: Database, accountId: string, deviceId: string) {
  const [row] = await db
    .select()
    .from(devices)
    .where(and(eq(devices.id, deviceId), eq(devices.account_id, accountId), isNull(devices.removed_at)));
  return row;
}

/** An account's devices that were not removed, oldest first. */
export const devicesOfAccount = (db: Database, accountId: string) =>
  db
    .select()
    .from(devices)
    .where(and(eq(devices.account_id, accountId), isNull(devices.removed_at)))
    .orderBy(asc(devices.created_at));

/** The statements that add a device and give it the account's projects. A key that is known already fails on the unique index. */
export const deviceAddition = (
  db: Database,
  device: typeof devices.$inferInsert,
): [Statement, ...Statement[]] => [
  db.insert(devices).values(device),
  accountAccessBump(db, device.account_id),
];

/** The statements that remove a device: its access, and the sessions it shared. */
export const deviceRemoval = (
  db: Database,
  device: { id: string; account_id: string },
  now: number,
): [Statement, ...Statement[]] => [
  db
    .update(devices)
    .set({ removed_at: now })
    .where(and(eq(devices.id, device.id), isNull(devices.removed_at))),
  db
    .update(graphSessions)
    .set({ unshared_at: now })
    .where(and(eq(graphSessions.device_id, device.id), isNull(graphSessions.unshared_at))),
  accountAccessBump(db, device.account_id),
];

/** Notes that a device got a new token, and what version it runs if it said so. */
export const touchDevice = (db: Database, deviceId: string, now: number, clientVersion?: string) =>
  db
    .update(devices)
    .set({ last_seen_at: now, ...(clientVersion === undefined ? {} : { client_version: clientVersion }) })
    .where(eq(devices.id, deviceId));
