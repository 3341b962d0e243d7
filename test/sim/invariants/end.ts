import type { SimulatedLaptop } from "../actors/laptop.ts";
import type { World } from "../world.ts";

/** Ended attempts that a relay's journal keeps (relay-cli/relay/loop.ts). */
const JOURNAL_KEPT = 10_000;
/** Lines a relay may log at all, for a fault that it can meet (trouble, and its end), and for a command. */
const LINES = { always: 12, ofAFault: 2, ofACommand: 4 };
const OF_THE_SERVER = /^(?:d1|object|object_write)\./;

type Row = Record<string, unknown>;

/** What must hold once the network has been whole for long enough and everything came to rest. */
export function checkEnd(world: World): void {
  for (const command of world.witness.commands.values())
    if (command.state === "queued" || command.state === "running")
      world.broken("every command ends", `${command.command_id} is still ${command.state}`);
  for (const laptop of world.laptops.values()) {
    if (!laptop.removed && !deviceIsRemoved(world, laptop)) checkResults(world, laptop);
    checkSharing(world, laptop);
  }
  checkAccess(world);
  checkKeys(world);
}

/** Every outcome in the laptop's own history is what the server holds. */
function checkResults(world: World, laptop: SimulatedLaptop): void {
  const waiting = laptop.disk.database.prepare("SELECT command_id, last_failure FROM outbox").all();
  for (const row of waiting)
    world.broken(
      "a finished result arrives",
      `${laptop.name} still holds ${row.command_id}: ${row.last_failure}`,
    );
  for (const row of laptop.disk.database
    .prepare("SELECT command_id, state FROM attempts WHERE state <> 'ended'")
    .all())
    world.broken("a finished result arrives", `${row.command_id} is still ${row.state} on ${laptop.name}`);
  const finished = laptop.disk.database
    .prepare(
      `SELECT command_id, history.project_id, history.execution_id, status FROM history JOIN attempts USING (command_id)
       WHERE status <> 'running' AND reason IS NULL`,
    )
    .all() as Row[];
  for (const run of finished) {
    if (mayBeForgotten(world, String(run.command_id), String(run.project_id))) continue;
    const disk = world.server.objects.disks.get(String(run.project_id));
    const stored = disk?.database
      .prepare(
        "SELECT state, reason, outcome_json FROM commands JOIN payloads USING (seq) WHERE command_id = ?",
      )
      .get(String(run.command_id));
    const outcome = stored && (JSON.parse(String(stored.outcome_json ?? "{}")) as Row);
    const same = outcome?.execution_id === run.execution_id;
    if (!same || (stored?.state !== run.status && stored?.state !== "cancelled"))
      world.broken(
        "a finished result arrives",
        `${run.command_id} is ${run.status} on ${laptop.name} and ${stored?.state} on the server`,
      );
  }
}

/** Its Graph ended so long ago that the server need not keep it any more. */
function mayBeForgotten(world: World, commandId: string, projectId: string): boolean {
  const endedAt = world.witness.commands.get(commandId)?.run?.endedAt ?? Number.POSITIVE_INFINITY;
  const projects = world.scenario.accounts.flatMap((account) => account.projects);
  const kept = projects.find((project) => project.id === projectId)?.settings.retention_seconds ?? 0;
  return world.scheduler.clock > endedAt + kept * 1000;
}

/** What the server shows as shared is what the laptop shares. */
function checkSharing(world: World, laptop: SimulatedLaptop): void {
  if (laptop.removed || !laptop.running || laptop.isCopied) return;
  const told = world.server.d1.database
    .prepare(
      "SELECT project_id, graph_session_id, slug FROM graph_sessions WHERE device_id = ? AND unshared_at IS NULL",
    )
    .all(laptop.facts.deviceId)
    .map((row) => `${row.project_id} ${row.graph_session_id} ${row.slug}`);
  const shown = told.sort().join(", ");
  const shared = [...laptop.consent].sort().join(", ");
  if (shown !== shared && !deviceIsRemoved(world, laptop))
    world.broken("the list is true", `${laptop.name} shares [${shared}] and the server shows [${shown}]`);
}

/** Each object lists whom D1 lists. */
function checkAccess(world: World): void {
  const { d1, objects } = world.server;
  const ids = (rows: Row[]) =>
    rows
      .map((row) => String(row.id))
      .sort()
      .join(", ");
  for (const [project, { database }] of objects.disks) {
    const agents = d1.database
      .prepare(
        `SELECT agents.id FROM agent_projects JOIN agents ON agents.id = agent_id
         WHERE project_id = ? AND revoked_at IS NULL`,
      )
      .all(project);
    const devices = d1.database
      .prepare(
        `SELECT devices.id FROM devices JOIN projects USING (account_id)
         WHERE projects.id = ? AND removed_at IS NULL`,
      )
      .all(project);
    const known = {
      agents: ids(database.prepare("SELECT agent_id AS id FROM agents").all()),
      devices: ids(database.prepare("SELECT device_id AS id FROM devices").all()),
    };
    if (known.agents !== ids(agents) || known.devices !== ids(devices))
      world.broken(
        "access ends at once",
        `${project} lists ${JSON.stringify(known)}, D1 ${ids([...agents, ...devices])}`,
      );
  }
}

/** In all projects together, one command for each key of an agent's session. */
function checkKeys(world: World): void {
  const seen = new Map<string, string>();
  for (const disk of world.server.objects.disks.values())
    for (const row of disk.database
      .prepare("SELECT command_id, agent_id, idempotency_key, graph_session_id FROM commands")
      .all()) {
      const key = `${row.agent_id} ${row.idempotency_key} ${row.graph_session_id}`;
      const other = seen.get(key);
      if (other !== undefined)
        world.broken("one key, one command", `${key} names ${other} and ${row.command_id}`);
      seen.set(key, String(row.command_id));
    }
}

const deviceIsRemoved = (world: World, laptop: SimulatedLaptop): boolean =>
  world.server.d1.database
    .prepare("SELECT 1 FROM devices WHERE id = ? AND removed_at IS NOT NULL")
    .get(laptop.facts.deviceId) !== undefined;

/** What must be left of it all when every record's time is over. */
export function checkForgotten(world: World): void {
  const grown = (where: string, rows: unknown) => {
    if (Number(rows) > 0) world.broken("nothing grows without bound", `${rows} rows are left in ${where}`);
  };
  for (const [project, disk] of world.server.objects.disks)
    for (const table of ["commands", "payloads", "kept_out", "key_claims"])
      grown(`${table} of ${project}`, disk.database.prepare(`SELECT count(*) AS n FROM ${table}`).get()?.n);
  grown(
    "used_assertions",
    world.server.d1.database.prepare("SELECT count(*) AS n FROM used_assertions").get()?.n,
  );
  for (const laptop of world.laptops.values()) {
    const kept = Number(laptop.disk.database.prepare("SELECT count(*) AS n FROM attempts").get()?.n);
    if (kept > JOURNAL_KEPT)
      world.broken("nothing grows without bound", `${kept} attempts in the journal of ${laptop.name}`);
    const faults = world.faults.struck.filter(
      (name) => name.includes(`.${laptop.name}#`) || OF_THE_SERVER.test(name),
    );
    const allowed =
      LINES.always + LINES.ofAFault * faults.length + LINES.ofACommand * world.witness.commands.size;
    if (laptop.logLines > allowed)
      world.broken("nothing grows without bound", `${laptop.logLines} lines in the log of ${laptop.name}`);
  }
}
