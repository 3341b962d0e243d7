import { describe, expect, test } from "vitest";
import type { Transport } from "../../relay-cli/relay/ports.ts";
import { settle } from "./support/clock.ts";
import { OTHER_PROJECT, PROJECT } from "./support/server.ts";
import { GRAPH, SECOND_GRAPH, World } from "./support/world.ts";

describe("the main job", () => {
  test("a queued run is found, started, run once and reported", async () => {
    const world = new World();
    const command = world.queue({ folder: "." });
    await world.start();
    expect(world.engine.runs).toHaveLength(1);
    const { request } = world.engine.last;
    expect(request.channel).toBe(`graph:external:${command.command_id}`);
    expect(request.graph).toEqual({ slug: "report", path: GRAPH.path });
    expect(request.args).toEqual({ folder: "." });
    expect(command.status).toBe("running");

    world.engine.last.end({ result_json: '{"files":3}', total_tokens: 12 });
    await settle();
    expect(command.status).toBe("completed");
    expect(command.completion).toMatchObject({
      execution_id: request.execution_id,
      result: { files: 3 },
      total_tokens: 12,
    });
    expect(world.store.outbox.pending()).toEqual([]);
    expect(world.store.history.find(request.execution_id)).toMatchObject({
      status: "completed",
      result_json: '{"files":3}',
      project_id: PROJECT,
      agent_name: "Test agent",
    });
  });

  test("the set of sessions is sent when the server asks for it, and its digest alone afterwards", async () => {
    const world = new World();
    await world.start();
    expect(world.server.sets.get(PROJECT)?.sessions).toEqual([
      {
        graph_session_id: GRAPH.graph_session_id,
        name: "Report",
        description: "Says what there is",
        slug: "report",
        version: "1.0.0",
        status: "ready",
      },
    ]);
    await world.clock.advance(60_000);
    const bodies = world.server.calls("sync").map((call) => call.body as { sessions?: unknown });
    expect(bodies).toHaveLength(5);
    expect(bodies.filter((body) => body.sessions !== undefined)).toHaveLength(1);
  });

  test("an idle relay polls every 20 s, or as often as the server asks", async () => {
    const world = new World();
    await world.start();
    const first = world.server.calls("sync").length;
    await world.clock.advance(100_000);
    expect(world.server.calls("sync").length - first).toBe(5);
    world.server.pollSeconds = 50;
    await world.clock.advance(20_000);
    const then = world.server.calls("sync").length;
    await world.clock.advance(100_000);
    expect(world.server.calls("sync").length - then).toBe(2);
  });

  test("runs go one after another, each taken up as soon as the one before is over", async () => {
    const world = new World();
    const commands = [world.queue({ n: 1 }), world.queue({ n: 2 }), world.queue({ n: 3 })];
    await world.start();
    for (const n of [1, 2, 3]) {
      expect(world.engine.runs).toHaveLength(n);
      expect(world.engine.last.request.args).toEqual({ n });
      await world.clock.advance(60_000);
      expect(world.engine.runs).toHaveLength(n);
      world.engine.last.end();
      await settle();
    }
    expect(commands.map((command) => command.status)).toEqual(["completed", "completed", "completed"]);
  });

  test("while a Graph runs the timer makes no pass", async () => {
    const world = new World();
    world.queue();
    await world.start();
    const syncs = world.server.calls("sync").length;
    await world.clock.advance(10 * 60_000);
    expect(world.server.calls("sync").length).toBe(syncs);
  });

  test("with concurrency, different sessions run side by side and one session does not overtake itself", async () => {
    const world = new World();
    world.store.projects.share(PROJECT, SECOND_GRAPH.graph_session_id, 0);
    world.queue({ n: 1 });
    world.queue({ n: 2 });
    world.server.queue(SECOND_GRAPH, { n: 3 });
    await world.start({}, 3);
    expect(world.engine.runs.map((run) => run.request.args.n)).toEqual([1, 3]);
    await world.clock.advance(60_000);
    expect(world.engine.runs).toHaveLength(2);
    world.engine.runs[0]?.end();
    await settle();
    expect(world.engine.runs.map((run) => run.request.args.n)).toEqual([1, 3, 2]);
  });

  test("a command that waits for its session is not overtaken when that comes free during another start", async () => {
    const world = new World();
    world.store.projects.share(PROJECT, SECOND_GRAPH.graph_session_id, 0);
    world.queue({ n: 1 });
    world.queue({ n: 2 });
    const between = world.server.queue(SECOND_GRAPH, { n: 3 });
    world.queue({ n: 4 });
    const transport: Transport = async (url, init) => {
      if (url.endsWith(`${between.command_id}/start`)) {
        world.engine.last.end();
        await settle();
      }
      return world.server.transport(url, init);
    };
    await world.start({ transport }, 2);
    await settle();
    expect(world.engine.runs.map((run) => run.request.args.n)).toEqual([1, 3, 2]);
  });

  test("a command asked for while the relay rests is taken up within one poll", async () => {
    const world = new World();
    await world.start();
    await world.clock.advance(7_000);
    const command = world.queue();
    await world.clock.advance(12_900);
    expect(command.status).toBe("queued");
    await world.clock.advance(200);
    expect(command.status).toBe("running");
  });

  test("a wake makes a pass at once", async () => {
    const world = new World();
    const relay = await world.start();
    const command = world.queue();
    relay.wake();
    await settle();
    expect(command.status).toBe("running");
  });

  test("a wake during a run looks at once whether it was cancelled", async () => {
    const world = new World();
    const command = world.queue();
    const relay = await world.start();
    command.cancel_requested = true;
    relay.wake();
    await settle();
    expect(world.engine.last.stops).toBe(1);
    expect(command.status).toBe("cancelled");
  });

  test("a sharing change by another process makes a pass within a second", async () => {
    const world = new World();
    await world.start();
    await world.clock.advance(5_000);
    world.store.projects.share(OTHER_PROJECT, SECOND_GRAPH.graph_session_id, 0);
    await world.clock.advance(1_000);
    expect(world.server.sets.get(OTHER_PROJECT)?.sessions.map((one) => one.slug)).toEqual(["review"]);
  });

  test("a sharing change is told to the server even while a Graph runs", async () => {
    const world = new World();
    world.queue();
    await world.start();
    world.store.projects.unshare(PROJECT, GRAPH.graph_session_id);
    await world.clock.advance(1_000);
    expect(world.server.sets.get(PROJECT)?.sessions).toEqual([]);
    expect(world.engine.last.stops).toBe(0);
  });

  test("a sharing change that could not be told is told later, even while a Graph runs", async () => {
    const world = new World();
    world.queue();
    await world.start();
    world.server.fault = ({ call }) => (call === "sync" ? "cut" : undefined);
    world.store.projects.unshare(PROJECT, GRAPH.graph_session_id);
    await world.clock.advance(10_000);
    expect(world.server.sets.get(PROJECT)?.sessions).toHaveLength(1);
    world.server.fault = () => undefined;
    await world.clock.advance(70_000);
    expect(world.server.sets.get(PROJECT)?.sessions).toEqual([]);
    expect(world.engine.last.stops).toBe(0);
  });

  test("a disabled project is told that nothing is shared, looked at once more, and then left alone", async () => {
    const world = new World();
    await world.start();
    world.store.projects.setEnabled(PROJECT, false);
    await world.clock.advance(1_000);
    expect(world.server.sets.get(PROJECT)?.sessions).toEqual([]);
    await world.clock.advance(20_000);
    const syncs = world.server.calls("sync").length;
    await world.clock.advance(100_000);
    expect(world.server.calls("sync").length).toBe(syncs);
  });

  test("a project the server refuses is told to the owner and does not hold up the others", async () => {
    const world = new World();
    world.store.projects.share(OTHER_PROJECT, SECOND_GRAPH.graph_session_id, 0);
    world.server.fault = ({ call, body }) =>
      call === "sync" && (body as { project_id: string }).project_id === PROJECT
        ? { error: "project_not_found" }
        : undefined;
    await world.start();
    expect(world.server.sets.has(OTHER_PROJECT)).toBe(true);
    expect(world.store.projects.find(PROJECT)?.problem).toContain("Project not found");
    await world.clock.advance(200_000);
    // A newer token is tried once: the project could be younger than the token.
    expect(world.server.calls("token")).toHaveLength(2);
    world.server.fault = () => undefined;
    await world.clock.advance(20_000);
    expect(world.store.projects.find(PROJECT)?.problem).toBeNull();
  });
});
