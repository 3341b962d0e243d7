import { describe, expect, test } from "vitest";
import { NO_LONGER_SHARED } from "../../src/protocol/errors.ts";
import { settle } from "./support/clock.ts";
import { OTHER_PROJECT, PROJECT } from "./support/server.ts";
import { GRAPH, SECOND_GRAPH, World } from "./support/world.ts";

/** Ways in which what the server names is not what the owner shares at that moment. */
const WITHDRAWN: readonly [what: string, change: (world: World) => void][] = [
  ["the session was unshared", (w) => w.store.projects.unshare(PROJECT, GRAPH.graph_session_id)],
  ["the project was disabled", (w) => w.store.projects.setEnabled(PROJECT, false)],
  ["the Graph was removed", (w) => w.store.graphs.remove(GRAPH.graph_session_id)],
  ["the Graph has another slug", (w) => w.store.graphs.update({ ...GRAPH, slug: "other" })],
  [
    "the session is shared with another project alone",
    (w) => {
      w.store.projects.unshare(PROJECT, GRAPH.graph_session_id);
      w.store.projects.share(OTHER_PROJECT, GRAPH.graph_session_id, 0);
    },
  ],
];

describe("consent", () => {
  test.each(WITHDRAWN)("%s between the sync and its answer: cancelled, nothing runs", async (_, change) => {
    const world = new World();
    const command = world.queue();
    const transport = world.server.transport;
    await world.start({
      transport: async (url, init) => {
        const answer = await transport(url, init);
        if (url.endsWith("/sync")) change(world);
        return answer;
      },
    });
    expect(world.engine.runs).toHaveLength(0);
    expect(world.server.calls("start")).toHaveLength(0);
    expect(command.status).toBe("cancelled");
    expect(command.completion?.error).toBe(NO_LONGER_SHARED);
  });

  test.each(WITHDRAWN)("%s while the go-ahead is on its way: cancelled, nothing runs", async (_, change) => {
    const world = new World();
    const command = world.queue();
    const transport = world.server.transport;
    await world.start({
      transport: async (url, init) => {
        const answer = await transport(url, init);
        if (url.endsWith("/start")) change(world);
        return answer;
      },
    });
    expect(world.engine.runs).toHaveLength(0);
    expect(command.status).toBe("cancelled");
    expect(command.completion?.error).toBe(NO_LONGER_SHARED);
  });

  test("a session that was unshared while it waits for its turn is not run", async () => {
    const world = new World();
    world.store.projects.share(PROJECT, SECOND_GRAPH.graph_session_id, 0);
    world.queue();
    const second = world.server.queue(SECOND_GRAPH);
    await world.start();
    world.store.projects.unshare(PROJECT, SECOND_GRAPH.graph_session_id);
    world.engine.last.end();
    await settle();
    expect(world.engine.runs).toHaveLength(1);
    expect(second.status).toBe("cancelled");
  });

  test.each([
    ["a slug that is a path", { slug: "../../x" }],
    ["a session nobody has", { graph_session_id: "gs_ffffffffffffffffffffffffffffffff" }],
  ])("a command with %s is cancelled with the reason", async (_, wrong) => {
    const world = new World();
    const command = world.server.queue({ ...GRAPH, ...wrong });
    await world.start();
    expect(world.engine.runs).toHaveLength(0);
    expect(command.status).toBe("cancelled");
    expect(command.completion?.error).toBe(NO_LONGER_SHARED);
  });

  test.each([
    ["whose id is no UUID", { command_id: "../../x" }],
    ["whose id is another project's", { command_id: "00000000-bbbb-8000-8000-000000000001" }],
    ["whose session id is malformed", { graph_session_id: "__proto__" }],
    ["whose arguments are no object", { arguments: [] }],
    ["that is no object", undefined],
  ])("a command %s is ignored, and the good one beside it runs", async (_, wrong) => {
    const world = new World();
    const good = {
      command_id: "00000000-aaaa-8000-8000-0000000000ff",
      graph_session_id: GRAPH.graph_session_id,
      slug: GRAPH.slug,
      arguments: {},
      agent_name: "a",
      queued_at: 0,
      expires_at: 0,
    };
    world.server.extraCommands = [wrong === undefined ? 7 : { ...good, ...wrong }];
    const command = world.queue();
    await world.start();
    expect(world.engine.runs).toHaveLength(1);
    expect(command.status).toBe("running");
    expect(world.server.calls("complete")).toHaveLength(0);
  });

  test("a project that was told of a session without hearing back is told when it is withdrawn, however often that takes", async () => {
    const world = new World();
    const faults = ["lost answer", "cut"] as const;
    let sets = 0;
    world.server.fault = ({ body }) =>
      (body as { sessions?: unknown }).sessions ? faults[sets++] : undefined;
    await world.start();
    expect(world.server.sets.get(PROJECT)?.sessions).toHaveLength(1);
    world.store.projects.setEnabled(PROJECT, false);
    await world.clock.advance(60_000);
    expect(world.server.sets.get(PROJECT)?.sessions).toEqual([]);
  });

  test("every command of a project that was disabled is refused, more than one answer holds and one that came late", async () => {
    const world = new World();
    const commands = Array.from({ length: 45 }, () => world.server.queue(SECOND_GRAPH));
    await world.start();
    world.store.projects.setEnabled(PROJECT, false);
    await world.clock.advance(2_000);
    commands.push(world.server.queue(GRAPH));
    await world.clock.advance(120_000);
    expect(new Set(commands.map((command) => command.status))).toEqual(new Set(["cancelled"]));
    expect(world.engine.runs).toHaveLength(0);
  });

  test("a command that was run once is never run again, whatever the server says", async () => {
    const world = new World();
    const command = world.queue();
    await world.start();
    world.engine.last.end();
    await settle();
    command.status = "queued";
    await world.clock.advance(60_000);
    await world.start();
    await world.clock.advance(60_000);
    expect(world.engine.runs).toHaveLength(1);
  });

  test("a refusal that the server does not take is not kept for ever", async () => {
    const world = new World();
    world.server.queue({ ...GRAPH, slug: "gone" });
    world.server.fault = ({ call }) => (call === "complete" ? { error: "invalid_request" } : undefined);
    await world.start();
    await world.clock.advance(100_000);
    expect(world.server.calls("complete")).toHaveLength(1);
    expect(world.store.outbox.pending()).toEqual([]);
    expect(world.store.outbox.deadLetters()).toEqual([]);
  });
});
