import { describe, expect, test } from "vitest";
import { createStore } from "../../relay-cli/store/index.ts";
import type { Sql } from "../../relay-cli/store/sql.ts";
import { settle } from "./support/clock.ts";
import { PROJECT } from "./support/server.ts";
import { GRAPH, World } from "./support/world.ts";

const FULL =
  "The state file /state.db cannot be written: the disk is full. Free some space; nothing that was stored is lost.";

/** A disk that takes the first `writes` writes and then no more, until it is told to. A failed write leaves nothing behind. */
function fillingDisk(sql: Sql, writes: number) {
  let left = writes;
  let depth = 0;
  const disk = { full: false, failures: 0 };
  const write = <T>(body: () => T): T => {
    if (depth > 0) return body();
    if (left-- <= 0) disk.full = true;
    if (disk.full) {
      disk.failures++;
      throw new Error(FULL);
    }
    return body();
  };
  const full: Sql = {
    ...sql,
    run: (statement, ...values) => write(() => sql.run(statement, ...values)),
    atomically: (body) =>
      write(() => {
        depth++;
        try {
          return sql.atomically(body);
        } finally {
          depth--;
        }
      }),
  };
  return {
    store: createStore(full),
    disk,
    free() {
      disk.full = false;
      left = Number.POSITIVE_INFINITY;
    },
  };
}

describe("a disk that is full", () => {
  // A whole run makes fewer writes than this; past it the disk never fills.
  for (let writes = 0; writes < 9; writes++)
    test(`from write ${writes} on: nothing is done that is not on the disk, it is said, and all goes on when there is space`, async () => {
      const world = new World();
      const command = world.queue();
      const { store, disk, free } = fillingDisk(world.sql, writes);
      await world.start({ store });
      world.engine.runs[0]?.end();
      await world.clock.advance(30_000);
      if (disk.failures === 0) {
        expect(command.status).toBe("completed");
        return;
      }
      expect(world.lines.join("\n")).toContain("disk is full");
      // Whatever was reported is on the disk.
      const saved = world.store.history.list(1)[0]?.status;
      if (command.status === "completed") expect(saved).toBe("completed");
      if (world.engine.runs.length > 0)
        expect(world.store.attempts.find(command.command_id)?.state).not.toBe("prepared");
      expect(world.store.graphs.find("report")).toMatchObject(GRAPH);

      free();
      await world.clock.advance(61_000);
      world.engine.runs[0]?.end();
      await world.clock.advance(61_000);
      expect(world.engine.runs).toHaveLength(1);
      expect(command.status).toBe("completed");
      expect(world.store.outbox.pending()).toEqual([]);
      expect(world.end).toBeUndefined();
    });

  test("a result that cannot be saved is given up by a second signal, and reported after the next start", async () => {
    const world = new World();
    const command = world.queue();
    const { attempts } = world.store;
    const finish = () => {
      throw new Error(FULL);
    };
    await world.start({ store: { ...world.store, attempts: { ...attempts, finish } } });
    world.engine.last.end();
    world.relay?.drain();
    await world.clock.advance(60_000);
    expect(world.end).toBeUndefined();
    world.relay?.cancel();
    await settle();
    expect(world.end).toEqual({ unsent: 0 });
    expect(command.status).toBe("running");

    await world.start();
    await world.clock.advance(20_000);
    expect(command.status).toBe("failed");
    expect(world.engine.runs).toHaveLength(1);
  });

  test("a log that cannot be written costs no run", async () => {
    const world = new World();
    const command = world.queue();
    const addEvents = () => {
      throw new Error(FULL);
    };
    await world.start({ store: { ...world.store, history: { ...world.store.history, addEvents } } });
    for (let n = 0; n < 1_000; n++) world.engine.last.emit({ type: "log", line: `line ${n}` });
    world.engine.last.end();
    await settle();
    expect(command.status).toBe("completed");
    expect(world.lines.filter((line) => line.includes("are lost"))).toHaveLength(1);
  });

  test("an unreadable state stops nothing that runs", async () => {
    const world = new World();
    world.queue();
    let broken = false;
    const { projects } = world.store;
    const sharingVersion = () => {
      if (broken) throw new Error("The state file cannot be read: the disk reported an error.");
      return projects.sharingVersion();
    };
    await world.start({ store: { ...world.store, projects: { ...projects, sharingVersion } } });
    broken = true;
    await world.clock.advance(60_000);
    expect(world.engine.last.stops).toBe(0);
    broken = false;
    world.store.projects.unshare(PROJECT, GRAPH.graph_session_id);
    await world.clock.advance(1_000);
    expect(world.server.sets.get(PROJECT)?.sessions).toEqual([]);
  });
});

describe("the history of a run", () => {
  test("holds its events in order, and at most 20,000 of them", async () => {
    const world = new World();
    world.queue();
    await world.start();
    for (let n = 0; n < 25_000; n++) world.engine.last.emit({ type: "log", line: `line ${n}` });
    world.engine.last.end();
    await settle();
    const { execution_id } = world.engine.last.request;
    const events = world.store.history.events(execution_id).map(({ event }) => event);
    expect(events).toHaveLength(20_000);
    expect(events[0]).toEqual({ type: "fleet_started", run_id: "run-1" });
    expect(events[1]).toEqual({ type: "log", line: "line 0" });
    expect(events.at(-1)).toMatchObject({ line: expect.stringContaining("cut here") as string });
  });
});
