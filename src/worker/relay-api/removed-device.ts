import { deliverAccount } from "../access.ts";
import type { DeviceAuth } from "../auth.ts";
import { database } from "../db/client.ts";
import { deviceOfAccount } from "../db/devices.ts";
import type { Env } from "../env.ts";

/**
 * Whether a device that an object does not know is paired all the same: the object was not told yet. It is
 * told now. A laptop that was just paired is then asked to try again, where it would otherwise stop for good.
 */
export async function isPairedAfterAll(env: Env, device: DeviceAuth): Promise<boolean> {
  if (!(await deviceOfAccount(database(env.DB), device.account_id, device.device_id))) return false;
  await deliverAccount(env, device.account_id);
  return true;
}
