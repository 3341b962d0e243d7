import { and, type inArray, isNull, notInArray, sql } from "drizzle-orm";
import type { CancelReason } from "../protocol/errors.ts";
import type { ProjectAccess } from "./contract.ts";
import { agents, commands, devices } from "./schema.ts";
import { type Db, inState, keptUntil, type Scope } from "./scope.ts";

/** Takes over a newer version; `false` if the one held is as new. */
export function takeVersion(db: Db, access: ProjectAccess): boolean {
  const settings = JSON.stringify(access.settings);
  const won = db.all(sql`
    insert into meta (id, project_id, access_version, settings)
    values (1, ${access.project_id}, ${access.version}, ${settings})
    on conflict (id) do update set access_version = excluded.access_version, settings = excluded.settings
    where excluded.access_version > meta.access_version
    returning id`);
  return won.length > 0;
}

/**
 * Makes the object's lists those of `access`. A queued command whose agent or device is gone is cancelled;
 * a running one whose agent is gone is asked to stop. Promises already made stay: a queued command's
 * expiry and an ended one's retention are those of the time they began.
 */
export function takeLists(scope: Scope, access: ProjectAccess): void {
  const { db } = scope;
  // One bound list each, since a statement takes no more than 100 parameters.
  const named = JSON.stringify(access.agents);
  db.run(
    sql`delete from agents where agent_id not in (select value ->> 'agent_id' from json_each(${named}))`,
  );
  db.run(sql`
    insert into agents (agent_id, name)
    select value ->> 'agent_id', value ->> 'name' from json_each(${named}) where true
    on conflict (agent_id) do update set name = excluded.name where agents.name is not excluded.name`);
  const paired = JSON.stringify(access.devices);
  db.run(
    sql`delete from devices where device_id not in (select value ->> 'device_id' from json_each(${paired}))`,
  );
  db.run(sql`
    insert into devices (device_id) select value ->> 'device_id' from json_each(${paired}) where true
    on conflict (device_id) do nothing`);

  const agentGone = notInArray(commands.agent_id, db.select({ id: agents.agent_id }).from(agents));
  const deviceGone = notInArray(commands.device_id, db.select({ id: devices.device_id }).from(devices));
  cancelQueued(scope, agentGone, "agent_removed");
  cancelQueued(scope, deviceGone, "device_removed");
  stopRunning(scope, agentGone);
}

function cancelQueued(scope: Scope, gone: ReturnType<typeof inArray>, reason: CancelReason): void {
  const kept_until = keptUntil(scope);
  const cancelled = scope.db
    .update(commands)
    .set({ state: "cancelled", reason, finished_at: scope.now, kept_until })
    .where(and(inState("queued"), gone))
    .returning({ id: commands.command_id })
    .all();
  for (const { id } of cancelled) {
    scope.effects.changed(id);
    scope.effects.due(kept_until);
  }
}

function stopRunning(scope: Scope, gone: ReturnType<typeof inArray>): void {
  scope.db
    .update(commands)
    .set({ cancel_requested_at: scope.now })
    .where(and(inState("running"), gone, isNull(commands.cancel_requested_at)))
    .run();
  const running = scope.db
    .select({ id: commands.command_id, device_id: commands.device_id })
    .from(commands)
    .where(and(inState("running"), gone))
    .all();
  for (const { id, device_id } of running) {
    // Whoever waits for it may no longer see it.
    scope.effects.changed(id);
    scope.effects.wake(device_id);
  }
}
