import type { Device, DeviceStore } from "./contract.ts";
import { buryAll } from "./outbox.ts";
import { replaceProjects } from "./projects.ts";
import { bumpSharingVersion } from "./sharing-version.ts";
import type { Sql } from "./sql.ts";

export function deviceStore(sql: Sql): DeviceStore {
  return {
    get: () =>
      sql.get<Device>(
        "SELECT device_id, account_name, server_url, name, private_jwk, paired_at FROM device WHERE only_one = 1",
      ),
    pair(device, projects) {
      sql.atomically(() => {
        sql.run(
          `INSERT OR REPLACE INTO device
             (only_one, device_id, account_name, server_url, name, private_jwk, paired_at)
           VALUES (1, ?, ?, ?, ?, ?, ?)`,
          device.device_id,
          device.account_name,
          device.server_url,
          device.name,
          device.private_jwk,
          device.paired_at,
        );
        replaceProjects(sql, projects);
        // What the server was told, it was told by the earlier device.
        sql.run("UPDATE projects SET told_digest = NULL, problem = NULL");
        bumpSharingVersion(sql);
      });
    },
    unpair(at) {
      return sql.atomically(() => {
        // What this device has not sent, no other device can send for it.
        const unsent = buryAll(sql, "This machine left its account before the outcome was sent.", at);
        sql.run("UPDATE attempts SET state = 'ended', reason = 'unpaired' WHERE state = 'prepared'");
        sql.run("DELETE FROM device");
        sql.run("DELETE FROM projects");
        bumpSharingVersion(sql);
        return unsent;
      });
    },
  };
}
