import { describe, expect, test } from "vitest";
import { settle } from "./support/clock.ts";
import { type Call, type Fault, PROJECT } from "./support/server.ts";
import { GRAPH, World } from "./support/world.ts";

const CALLS: readonly Call[] = ["token", "sync", "start", "control", "complete"];
const FAULTS: readonly [name: string, fault: Fault][] = [
  ["cut", "cut"],
  ["lost answer", "lost answer"],
  ["hang", "hang"],
  ["HTML with 200", "html"],
  ["redirect", "redirect"],
  ["401", { error: "token_invalid" }],
  ["429", { error: "rate_limited", headers: { "retry-after": "30" } }],
  ["500", { error: "internal" }],
  ["502 of a proxy", { status: 502, body: "<html>Bad gateway</html>" }],
  ["503", { error: "unavailable" }],
  ["404 of another service", { status: 404, body: '{"message":"no such page"}' }],
  ["an empty 200", { status: 200 }],
  ["JSON of another service with 200", { status: 200, body: '{"ok":true}' }],
];

describe("passing trouble at one call", () => {
  for (const call of CALLS)
    test.each(FAULTS)(
      `${call}: %s for two minutes, and the run is executed once and reported`,
      async (_, fault) => {
        const world = new World();
        const command = world.queue();
        world.server.fault = (seen) => (seen.call === call ? fault : undefined);
        await world.start();
        world.engine.runs[0]?.end();
        await world.clock.advance(120_000);
        world.engine.runs[0]?.end();
        world.server.fault = () => undefined;
        await world.clock.advance(90_000);
        world.engine.runs[0]?.end();
        await world.clock.advance(60_000);
        expect(world.engine.runs).toHaveLength(1);
        expect(command.status).toBe("completed");
        expect(command.completion?.result).toBe("done");
        expect(world.store.outbox.pending()).toEqual([]);
        expect(world.store.outbox.deadLetters()).toEqual([]);
        expect(world.end).toBeUndefined();
      },
    );
});

describe("413 at one call", () => {
  test.each(CALLS)("%s: the relay lives, and nothing runs twice", async (call) => {
    const world = new World();
    const command = world.queue();
    world.server.fault = (seen) => (seen.call === call ? { error: "body_too_large" } : undefined);
    await world.start();
    world.engine.runs[0]?.end();
    await world.clock.advance(120_000);
    expect(world.end).toBeUndefined();
    world.server.fault = () => undefined;
    await world.clock.advance(120_000);
    world.engine.runs[0]?.end();
    await world.clock.advance(60_000);
    // A start that was refused for good is not asked for again, and whoever waits for the run hears of it.
    expect(world.engine.runs.length).toBe(call === "start" ? 0 : 1);
    expect(command.status).toBe({ start: "cancelled", complete: "running" }[call as string] ?? "completed");
    if (call === "start") expect(command.completion?.error).toContain("never started");
    expect(world.store.outbox.deadLetters()).toHaveLength(call === "complete" ? 1 : 0);
  });
});

describe("retries", () => {
  test("a server that is gone is asked again and again, at most once a minute on the whole", async () => {
    const world = new World();
    world.server.fault = () => "cut";
    await world.start();
    await world.clock.advance(60 * 60_000);
    const tries = world.server.seen.length;
    expect(tries).toBeGreaterThan(60);
    expect(tries).toBeLessThan(200);
  });

  test("a server that is back is found within a minute", async () => {
    const world = new World();
    world.server.fault = () => "cut";
    await world.start();
    await world.clock.advance(2 * 3_600_000);
    world.server.fault = () => undefined;
    const command = world.queue();
    await world.clock.advance(60_000);
    expect(command.status).toBe("running");
  });

  test("a server that fails every other time keeps its pauses: one success resets nothing", async () => {
    const world = new World();
    await world.start();
    let n = 0;
    world.server.fault = ({ call }) =>
      call === "sync" && ++n % 2 === 0 ? { error: "unavailable" } : undefined;
    await world.clock.advance(3_600_000);
    // Passes are 20 s and, after a failure, 30 s apart on average: about 144 in an hour.
    expect(world.server.calls("sync").length).toBeLessThan(180);
  });

  test("Retry-After is honoured", async () => {
    const world = new World();
    world.server.fault = ({ call }) =>
      call === "sync" ? { error: "rate_limited", headers: { "retry-after": "300" } } : undefined;
    await world.start();
    await world.clock.advance(299_000);
    expect(world.server.calls("sync")).toHaveLength(1);
    await world.clock.advance(62_000);
    expect(world.server.calls("sync")).toHaveLength(2);
  });

  test("Retry-After as a date counts from the server's own clock", async () => {
    const world = new World();
    const headers = {
      date: "Fri, 01 Jan 2010 00:00:00 GMT",
      "retry-after": "Fri, 01 Jan 2010 00:01:40 GMT",
    };
    world.server.fault = ({ call }) => (call === "sync" ? { error: "rate_limited", headers } : undefined);
    await world.start();
    await world.clock.advance(99_000);
    expect(world.server.calls("sync")).toHaveLength(1);
    await world.clock.advance(12_000);
    expect(world.server.calls("sync")).toHaveLength(2);
  });

  test("each request has its own deadline, and the next one is made", async () => {
    const world = new World();
    world.server.fault = ({ call }) => (call === "sync" ? "hang" : undefined);
    await world.start();
    await world.clock.advance(29_000);
    expect(world.server.calls("sync")).toHaveLength(1);
    world.server.fault = () => undefined;
    await world.clock.advance(3_000);
    expect(world.server.calls("sync").length).toBeGreaterThan(1);
  });

  test("an answer that is cut in the middle of its body counts as none", async () => {
    const world = new World();
    const command = world.queue();
    const transport = world.server.transport;
    let cuts = 0;
    await world.start({
      transport: async (url, init) => {
        const answer = await transport(url, init);
        if (!url.endsWith("/start") || cuts++ > 0) return answer;
        const text = await answer.text();
        return new Response(
          new ReadableStream({
            start(controller) {
              controller.enqueue(new TextEncoder().encode(text.slice(0, 5)));
              controller.error(new Error("other side closed"));
            },
          }),
          { status: 200 },
        );
      },
    });
    await world.clock.advance(20_000);
    expect(world.engine.runs).toHaveLength(1);
    expect(command.status).toBe("running");
  });

  test("an endless answer is given up, not read into memory", async () => {
    const world = new World();
    let bytes = 0;
    await world.start({
      transport: async () =>
        new Response(
          new ReadableStream({
            pull(controller) {
              bytes += 1_000_000;
              controller.enqueue(new Uint8Array(1_000_000));
            },
          }),
        ),
    });
    await settle();
    expect(bytes).toBeLessThan(20_000_000);
    expect(world.lines[0]).toContain("over 8000000 bytes");
  });

  test("trouble is told once, and so is its end", async () => {
    const world = new World();
    world.server.fault = () => "cut";
    await world.start();
    await world.clock.advance(600_000);
    world.server.fault = () => undefined;
    await world.clock.advance(120_000);
    expect(world.lines).toEqual([
      "The server cannot be reached: connect ECONNREFUSED. Trying again.",
      "Project First now sees 1 Graph(s) of this machine.",
      "All is well again.",
    ]);
  });

  test("a set that another machine with the same state file replaces again and again is told once", async () => {
    const world = new World();
    await world.start();
    for (let pass = 0; pass < 5; pass++) {
      world.server.sets.delete(PROJECT);
      await world.clock.advance(20_000);
    }
    expect(world.server.sets.get(PROJECT)?.sessions).toHaveLength(1);
    expect(world.lines.filter((line) => line.includes("now sees"))).toHaveLength(1);
  });

  test("that nothing is shared any more is told once, however often another machine says otherwise", async () => {
    const world = new World();
    await world.start();
    world.store.projects.unshare(PROJECT, GRAPH.graph_session_id);
    for (let pass = 0; pass < 5; pass++) {
      world.server.sets.delete(PROJECT);
      await world.clock.advance(20_000);
    }
    await world.clock.advance(60_000);
    expect(world.server.sets.get(PROJECT)?.sessions).toEqual([]);
    expect(world.lines.filter((line) => line.includes("now sees"))).toEqual([
      "Project First now sees 1 Graph(s) of this machine.",
      "Project First now sees 0 Graph(s) of this machine.",
    ]);
  });

  test("2,000 failing passes leave no timer behind", async () => {
    const world = new World();
    let n = 0;
    const faults = FAULTS.map(([, fault]) => fault).filter((fault) => fault !== "hang");
    world.server.fault = () => faults[n++ % faults.length];
    const relay = await world.start();
    await world.clock.advance(2_000 * 40_000);
    expect(world.server.seen.length).toBeGreaterThan(2_000);
    expect(world.clock.sleeping).toBe(1);
    relay.drain();
    await settle();
    expect(world.clock.sleeping).toBe(0);
  });
});
