import type { CommandState } from "../../../src/protocol/states.ts";
import type { ObjectDisk } from "../server/object-storage.ts";
import type { Break } from "./guarantees.ts";

/** The arrows of the table in the design, section 3: from each state, the states it may become. */
const ARROWS: Readonly<Record<CommandState, readonly CommandState[]>> = {
  queued: ["running", "cancelled", "expired"],
  running: ["completed", "failed", "cancelled", "lost"],
  lost: ["running", "completed", "failed", "cancelled"],
  completed: [],
  failed: [],
  cancelled: [],
  expired: [],
};

/** A command as it is when it is queued. */
export interface QueuedCommand {
  command_id: string;
  agent_id: string;
  project_id: string;
  slug: string;
}

/** Is told what became of commands, once it is on the disk. */
export interface StateWitness {
  /** A command was queued. */
  queued(command: QueuedCommand): void;
  moved(command_id: string, from: CommandState, to: CommandState): void;
}

/**
 * Watches every write to an object's commands from inside its database, by triggers that only this
 * connection has: the product's tables and statements are untouched.
 */
export function watchStates(
  project: string,
  disk: ObjectDisk,
  now: () => number,
  broken: Break,
  witness: StateWitness,
): void {
  const database = disk.database;
  database.function("sim_queued", (state, command_id, agent_id, slug) => {
    if (state !== "queued") broken("a state moves by the table", `${command_id} begins as ${state}`);
    const [id, agent] = [String(command_id), String(agent_id)];
    const command = { command_id: id, agent_id: agent, project_id: project, slug: String(slug) };
    disk.whenStored(() => witness.queued(command));
    return null;
  });
  database.function("sim_moved", (command_id, from, to, expires_at) => {
    if (from === "queued" && to === "running" && now() >= Number(expires_at))
      broken("no start after a no", `${command_id} was let start after it had expired`);
    if (!ARROWS[from as CommandState].includes(to as CommandState))
      broken("a state moves by the table", `${command_id} went from ${from} to ${to}`);
    disk.whenStored(() => witness.moved(String(command_id), from as CommandState, to as CommandState));
    return null;
  });
  database.function("sim_deleted", (command_id, state, keptUntil) => {
    if (!disk.wiping && (keptUntil === null || Number(keptUntil) > now()))
      broken(
        "a state moves by the table",
        `${command_id} was deleted while ${state}, kept until ${keptUntil}`,
      );
    return null;
  });
  database.function("sim_outcome", (seq, before, after) => {
    broken("an outcome is written once", `of seq ${seq} in ${project}: ${before} became ${after}`);
    return null;
  });
  disk.onTables = () =>
    database.exec(`
      CREATE TEMP TRIGGER IF NOT EXISTS sim_t1 AFTER INSERT ON main.commands
        BEGIN SELECT sim_queued(new.state, new.command_id, new.agent_id, new.slug); END;
      CREATE TEMP TRIGGER IF NOT EXISTS sim_t2 AFTER UPDATE OF state ON main.commands WHEN old.state <> new.state
        BEGIN SELECT sim_moved(new.command_id, old.state, new.state, new.expires_at); END;
      CREATE TEMP TRIGGER IF NOT EXISTS sim_t3 BEFORE DELETE ON main.commands
        BEGIN SELECT sim_deleted(old.command_id, old.state, old.kept_until); END;
      CREATE TEMP TRIGGER IF NOT EXISTS sim_t4 AFTER UPDATE OF outcome_json ON main.payloads
        WHEN old.outcome_json IS NOT NULL AND new.outcome_json IS NOT old.outcome_json
        BEGIN SELECT sim_outcome(old.seq, old.outcome_json, new.outcome_json); END;`);
}
