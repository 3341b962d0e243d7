import { describe, expect, test } from "vitest";
import { settle } from "./support/clock.ts";
import { World } from "./support/world.ts";

async function running(): Promise<World> {
  const world = new World();
  world.queue();
  await world.start();
  return world;
}
const command = (world: World) => [...world.server.commands.values()][0];
const progressSent = (world: World) =>
  world.server.calls("control").map((call) => (call.body as { progress?: unknown }).progress);

describe("the control poll", () => {
  test("looks every 3 s and renews the lease for as long as the Graph runs", async () => {
    const world = await running();
    await world.clock.advance(30_000);
    expect(world.server.calls("control")).toHaveLength(10);
    world.engine.last.end();
    await settle();
    await world.clock.advance(30_000);
    expect(world.server.calls("control")).toHaveLength(10);
  });

  test("a cancelled run is told to stop once, within 3 s, and ends cancelled", async () => {
    const world = await running();
    world.engine.obedient = false;
    await world.clock.advance(10_000);
    Object.assign(command(world) ?? {}, { cancel_requested: true });
    await world.clock.advance(3_000);
    expect(world.engine.last.stops).toBe(1);
    await world.clock.advance(9_000);
    expect(world.engine.last.stops).toBe(1);
    world.engine.last.end({ status: "cancelled" });
    await settle();
    expect(command(world)?.status).toBe("cancelled");
    expect(command(world)?.completion?.finished_before_stop).toBeUndefined();
  });

  test.each(["completed", "failed"] as const)(
    "a run that was told to stop and %s all the same ends cancelled, and says so",
    async (status) => {
      const world = await running();
      world.engine.obedient = false;
      Object.assign(command(world) ?? {}, { cancel_requested: true });
      await world.clock.advance(3_000);
      world.engine.last.end({ status });
      await settle();
      expect(command(world)?.completion).toMatchObject({ status: "cancelled", finished_before_stop: true });
    },
  );

  test("a run cancelled before its process is up is stopped as soon as it is", async () => {
    const world = new World();
    world.engine.promptly = false;
    world.queue();
    await world.start();
    Object.assign(command(world) ?? {}, { cancel_requested: true });
    await world.clock.advance(6_000);
    expect(world.engine.last.stops).toBe(0);
    world.engine.last.emit({ type: "fleet_started", run_id: world.engine.last.runId });
    expect(world.engine.last.stops).toBe(1);
  });

  test("a run that the server no longer expects is stopped, and its outcome offered all the same", async () => {
    const world = await running();
    Object.assign(command(world) ?? {}, { status: "completed", completion: undefined });
    await world.clock.advance(3_000);
    expect(world.engine.last.stops).toBe(1);
    expect(world.server.calls("complete")).toHaveLength(1);
    expect(world.store.outbox.pending()).toEqual([]);
    expect(world.lines.join("\n")).toContain("holds another outcome");
  });

  test("a run whose command the server does not know any more is stopped", async () => {
    const world = await running();
    world.server.fault = ({ call }) => (call === "control" ? { error: "command_not_found" } : undefined);
    await world.clock.advance(3_000);
    expect(world.engine.last.stops).toBe(1);
  });

  test("a lost network stops nothing: the Graph goes on, and its result arrives", async () => {
    const world = await running();
    world.server.fault = () => "cut";
    await world.clock.advance(10 * 60_000);
    expect(world.engine.last.stops).toBe(0);
    Object.assign(command(world) ?? {}, { status: "lost" });
    world.engine.last.end();
    await world.clock.advance(60_000);
    expect(world.store.outbox.pending()).toHaveLength(1);
    world.server.fault = () => undefined;
    await world.clock.advance(60_000);
    expect(command(world)?.status).toBe("completed");
  });

  test("heartbeats go on through errors, well within the shortest lease", async () => {
    const world = await running();
    world.server.fault = ({ call }) => (call === "control" ? { error: "unavailable" } : undefined);
    await world.clock.advance(5 * 60_000);
    expect(world.server.calls("control").length).toBeGreaterThan(20);
    await world.clock.advance(11_000);
    const before = world.server.calls("control").length;
    world.server.fault = () => undefined;
    await world.clock.advance(11_000);
    expect(world.server.calls("control").length).toBeGreaterThan(before);
  });

  test("progress goes along with the next heartbeat, the newest alone", async () => {
    const world = await running();
    for (const percent of [10, 20, 30])
      world.engine.last.emit({ type: "progress", progress: { state: "running", percent } });
    await world.clock.advance(6_000);
    expect(progressSent(world)).toEqual([{ state: "running", percent: 30 }, undefined]);
  });

  test("waiting for approval is told at once, and so is going on", async () => {
    const world = await running();
    world.engine.last.emit({
      type: "progress",
      progress: { state: "awaiting_approval", message: "shell: ls" },
    });
    await settle();
    expect(progressSent(world)).toEqual([{ state: "awaiting_approval", message: "shell: ls" }]);
    world.engine.last.emit({ type: "progress", progress: { state: "running" } });
    await settle();
    expect(progressSent(world).at(-1)).toEqual({ state: "running" });
  });

  test("progress that got lost is sent with the next heartbeat", async () => {
    const world = await running();
    world.engine.last.emit({ type: "progress", progress: { state: "running", percent: 50 } });
    world.server.fault = ({ call }) => (call === "control" ? "cut" : undefined);
    await world.clock.advance(3_000);
    world.server.fault = () => undefined;
    await world.clock.advance(10_000);
    expect(progressSent(world).filter((one) => one !== undefined)).toHaveLength(2);
  });

  test("progress of any kind fits the protocol", async () => {
    const world = await running();
    world.engine.last.emit({
      type: "progress",
      progress: { state: "running", message: `\u0000\u001b[31m\ud83d${"😀".repeat(400)}`, percent: 1e9 },
    });
    await world.clock.advance(3_000);
    const [sent] = progressSent(world) as { message: string; percent: number }[];
    expect(sent?.percent).toBe(100);
    expect(sent?.message.length).toBeLessThanOrEqual(500);
    expect(sent?.message.isWellFormed()).toBe(true);
    expect(sent?.message).not.toContain("\u001b");
    expect(command(world)?.status).toBe("running");
  });

  test("progress that the server refuses costs no lease", async () => {
    const world = await running();
    world.engine.last.emit({ type: "progress", progress: { state: "running", percent: 5 } });
    world.server.fault = ({ call, body }) =>
      call === "control" && (body as { progress?: unknown }).progress !== undefined
        ? { error: "invalid_request" }
        : undefined;
    await world.clock.advance(30_000);
    expect(world.engine.last.stops).toBe(0);
    expect(progressSent(world).filter((one) => one !== undefined)).toHaveLength(1);
  });
});

describe("stopping", () => {
  test("the first signal lets the run finish, with heartbeats to the end, sends its result, and takes nothing more", async () => {
    const world = await running();
    const second = world.queue();
    world.relay?.drain();
    await world.clock.advance(3 * 60_000);
    expect(world.server.calls("control")).toHaveLength(60);
    expect(world.end).toBeUndefined();
    world.engine.last.end();
    await settle();
    expect(world.end).toEqual({ unsent: 0 });
    expect(command(world)?.status).toBe("completed");
    expect(second.status).toBe("queued");
    expect(world.clock.sleeping).toBe(0);
  });

  test("the second signal cancels the run, and reports it", async () => {
    const world = await running();
    world.relay?.drain();
    await world.clock.advance(5_000);
    world.relay?.cancel();
    await settle();
    expect(world.engine.last.stops).toBe(1);
    expect(world.end).toEqual({ unsent: 0 });
    expect(command(world)?.completion).toMatchObject({
      status: "cancelled",
      error: "Stopped by the owner of the desktop",
    });
  });

  test("an idle relay ends at once", async () => {
    const world = new World();
    await world.start();
    world.relay?.drain();
    await settle();
    expect(world.end).toEqual({ unsent: 0 });
    expect(world.clock.sleeping).toBe(0);
  });

  test("a relay in the middle of a long pause ends at once", async () => {
    const world = new World();
    world.server.fault = () => ({ error: "unavailable", headers: { "retry-after": "600" } });
    await world.start();
    await world.clock.advance(5_000);
    world.relay?.drain();
    await settle();
    expect(world.end).toEqual({ unsent: 0 });
  });

  test("a relay whose sync hangs ends at once", async () => {
    const world = new World();
    world.server.fault = ({ call }) => (call === "sync" ? "hang" : undefined);
    await world.start();
    world.relay?.drain();
    await settle();
    expect(world.end).toEqual({ unsent: 0 });
  });

  test("without a network it tries for 20 s, keeps the result, and the next start sends it", async () => {
    const world = await running();
    world.server.fault = () => "cut";
    world.relay?.drain();
    world.engine.last.end();
    await world.clock.advance(19_000);
    expect(world.end).toBeUndefined();
    await world.clock.advance(2_000);
    expect(world.end).toEqual({ unsent: 1 });
    world.server.fault = () => undefined;
    await world.start();
    expect(command(world)?.status).toBe("completed");
  });

  test("an outcome that waits for its next try is tried once more before the end", async () => {
    const world = await running();
    world.server.fault = ({ call }) => (call === "complete" ? { error: "unavailable" } : undefined);
    world.engine.last.end();
    await world.clock.advance(20 * 60_000);
    world.server.fault = () => undefined;
    world.relay?.drain();
    await settle();
    expect(world.end).toEqual({ unsent: 0 });
    expect(command(world)?.status).toBe("completed");
  });

  test("a server that hangs does not hold up the end for longer", async () => {
    const world = await running();
    world.server.fault = () => "hang";
    world.relay?.drain();
    world.engine.last.end();
    await world.clock.advance(21_000);
    expect(world.end).toEqual({ unsent: 1 });
  });
});

describe("a server that will have no more of this relay", () => {
  test("a removed device stops what runs and ends, saying so once", async () => {
    const world = await running();
    world.server.fault = () => ({ error: "device_removed" });
    await world.clock.advance(3_000);
    expect(world.engine.last.stops).toBe(1);
    expect(world.end?.refused?.code).toBe("device_removed");
    expect(world.end?.unsent).toBe(1);
    expect(world.lines.filter((line) => line.includes("device was removed"))).toHaveLength(1);
    expect(world.clock.sleeping).toBe(0);
  });

  test("a relay that is too old finishes what it began, keeps the result, and ends", async () => {
    const world = await running();
    world.server.fault = () => ({ error: "version_unsupported" });
    await world.clock.advance(60_000);
    expect(world.engine.last.stops).toBe(0);
    expect(world.end).toBeUndefined();
    world.engine.last.end();
    await settle();
    expect(world.end?.refused?.code).toBe("version_unsupported");
    expect(world.end?.unsent).toBe(1);
  });

  test("a minimum version in a sync's answer ends an older relay before it takes up anything", async () => {
    const world = new World();
    const queued = world.queue();
    world.server.minimumVersion = "0.2.0";
    await world.start();
    expect(world.end?.refused?.text).toContain("needs 0.2.0");
    expect(queued.status).toBe("queued");
  });

  test("a signature that is refused ends the relay", async () => {
    const world = new World();
    world.server.fault = () => ({ error: "assertion_invalid" });
    await world.start();
    expect(world.end?.refused?.code).toBe("assertion_invalid");
    expect(world.server.calls("token")).toHaveLength(1);
  });

  test("a request for a token that came twice is made again, with another signature", async () => {
    const world = new World();
    const command = world.queue();
    world.server.fault = ({ call }) =>
      call === "token" && world.server.calls("token").length === 1 ? { error: "assertion_used" } : undefined;
    await world.start();
    await world.clock.advance(5_000);
    expect(world.end).toBeUndefined();
    expect(command.status).toBe("running");
  });
});
