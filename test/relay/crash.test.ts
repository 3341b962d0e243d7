import { describe, expect, test } from "vitest";
import { RELAY_STOPPED } from "../../src/protocol/errors.ts";
import { settle } from "./support/clock.ts";
import { mortal } from "./support/crash.ts";
import { PROJECT } from "./support/server.ts";
import { GRAPH, World } from "./support/world.ts";

/**
 * Where the relay is killed, whether the Graph had been started by then, and how the command ends after
 * the next start.
 */
const POINTS: readonly [point: string, started: boolean, end: "completed" | "failed"][] = [
  ["transport.sync:before", false, "completed"],
  ["transport.sync:after", false, "completed"],
  ["attempts.prepare:before", false, "completed"],
  ["attempts.prepare:after", false, "completed"],
  ["transport.start:before", false, "completed"],
  ["transport.start:after", false, "completed"],
  ["attempts.begin:before", false, "completed"],
  // From here on nobody can know whether the process ran: it is never run again.
  ["attempts.begin:after", false, "failed"],
  ["engine.run:before", false, "failed"],
  ["engine.run:after", true, "failed"],
  ["engine.run:ended", true, "failed"],
  ["attempts.finish:before", true, "failed"],
  ["attempts.finish:after", true, "completed"],
  ["transport.complete:before", true, "completed"],
  ["transport.complete:after", true, "completed"],
  ["outbox.delivered:before", true, "completed"],
  ["outbox.delivered:after", true, "completed"],
];

describe("kill -9", () => {
  test.each(POINTS)(
    "at %s: at most one execution, no result lost, the record right",
    async (point, started, end) => {
      const world = new World();
      const command = world.queue();
      const killed = mortal(world.ports(), point);
      await world.start(killed.ports);
      world.engine.runs[0]?.end();
      await settle();
      expect(killed.died()).toBe(true);
      expect(world.engine.runs).toHaveLength(started ? 1 : 0);

      await world.start();
      if (world.engine.runs.length === 1 && !started) world.engine.last.end();
      await world.clock.advance(60_000);

      expect(world.engine.runs.length).toBe(end === "completed" || started ? 1 : 0);
      expect(command.status).toBe(end);
      expect(command.completion?.error).toBe(end === "failed" ? RELAY_STOPPED : undefined);
      expect(world.store.outbox.pending()).toEqual([]);
      expect(world.store.attempts.inState("prepared")).toEqual([]);
      expect(world.store.attempts.inState("started")).toEqual([]);
    },
  );

  test("the start is asked for again with the same attempt", async () => {
    const world = new World();
    world.queue();
    await world.start(mortal(world.ports(), "transport.start:after").ports);
    await world.start();
    const attempts = world.server
      .calls("start")
      .map((call) => (call.body as { attempt_id: string }).attempt_id);
    expect(attempts).toHaveLength(2);
    expect(attempts[0]).toBe(attempts[1]);
    expect(world.engine.runs).toHaveLength(1);
  });

  test("consent is checked again before an interrupted start goes on", async () => {
    const world = new World();
    const command = world.queue();
    await world.start(mortal(world.ports(), "transport.start:after").ports);
    world.store.projects.unshare(PROJECT, GRAPH.graph_session_id);
    await world.start();
    expect(world.engine.runs).toHaveLength(0);
    expect(command.status).toBe("cancelled");
  });

  test("a start that was given up as lost meanwhile is reported as never run", async () => {
    const world = new World();
    const command = world.queue();
    await world.start(mortal(world.ports(), "transport.start:after").ports);
    command.status = "lost";
    await world.start();
    await world.clock.advance(20_000);
    expect(world.engine.runs).toHaveLength(0);
    expect(command.status).toBe("failed");
    expect(command.completion?.error).toContain("never started");
    expect(command.completion?.finished_before_stop).toBe(false);
  });

  test("the history of a run that the relay did not outlive says so", async () => {
    const world = new World();
    const command = world.queue();
    await world.start(mortal(world.ports(), "engine.run:ended").ports);
    world.engine.last.end();
    await settle();
    await world.start();
    expect(world.store.history.list(1)[0]).toMatchObject({ status: "failed", error: RELAY_STOPPED });
    expect(command.completion?.finished_before_stop).toBe(false);
  });

  test("a copied state file leaves to its original what the original has under way", async () => {
    const world = new World();
    const first = world.queue();
    await world.start();
    // A copy: the same rows, and another relay on them.
    expect(world.store.attempts.disown()).toBe(1);
    const copy = world.ports();
    await world.start(copy);
    await world.clock.advance(20_000);
    expect(first.status).toBe("running");
    expect(world.engine.runs).toHaveLength(1);
    expect(world.server.calls("complete")).toHaveLength(0);
  });
});
