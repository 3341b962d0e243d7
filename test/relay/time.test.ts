import { describe, expect, test } from "vitest";
import { settle } from "./support/clock.ts";
import { World } from "./support/world.ts";

const HOUR = 3_600_000;

describe("the machine's clock", () => {
  for (const [name, offset] of [
    ["20 minutes behind", -20 * 60_000],
    ["a day ahead", 24 * HOUR],
  ] as const)
    test(`${name} at the start: the relay goes on with the server's time, and says "clock" once`, async () => {
      const world = new World();
      const serverTime = world.clock.wall();
      world.clock.setWall(offset);
      const command = world.queue();
      world.server.fault = ({ call, body }) => {
        if (call !== "token") return undefined;
        const at = Number((body as { assertion: string }).assertion.split("@")[1]);
        const now = serverTime + world.clock.wall() - serverTime - offset;
        return Math.abs(at - now) > 60_000 ? { error: "clock_skew", server_time: now } : undefined;
      };
      await world.start();
      expect(command.status).toBe("running");
      await world.clock.advance(40 * 60_000);
      expect(world.lines.filter((line) => line.includes("clock"))).toHaveLength(1);
      expect(world.server.calls("token").length).toBe(1 + Math.ceil(40 / 14));
    });

  test("a clock that is put right later is noticed without help", async () => {
    const world = new World();
    let offset = -HOUR;
    world.clock.setWall(offset);
    world.server.fault = ({ call, body }) => {
      if (call !== "token") return undefined;
      const at = Number((body as { assertion: string }).assertion.split("@")[1]);
      const now = world.clock.wall() - offset;
      return Math.abs(at - now) > 60_000 ? { error: "clock_skew", server_time: now } : undefined;
    };
    await world.start();
    world.clock.setWall(-offset);
    offset = 0;
    await world.clock.advance(30 * 60_000);
    const command = world.queue();
    await world.clock.advance(20_000);
    expect(command.status).toBe("running");
    expect(world.lines.filter((line) => line.includes("clock"))).toHaveLength(2);
  });

  test.each([HOUR, -HOUR])(
    "a jump of the wall clock by %d ms during a run changes neither its heartbeats nor its end",
    async (jump) => {
      const world = new World();
      const command = world.queue();
      await world.start();
      await world.clock.advance(6_000);
      world.clock.setWall(jump);
      await world.clock.advance(30_000);
      expect(world.server.calls("control")).toHaveLength(12);
      expect(world.engine.last.stops).toBe(0);
      world.engine.last.end();
      await settle();
      expect(command.status).toBe("completed");
    },
  );

  test("a jump of the wall clock costs an idle relay one early pass, no more", async () => {
    const world = new World();
    await world.start();
    const before = world.server.calls("sync").length;
    world.clock.setWall(HOUR);
    await world.clock.advance(20_000);
    expect(world.server.calls("sync").length - before).toBe(1);
  });
});

describe("a machine that sleeps", () => {
  test("makes one pass within five seconds of waking, not one for each it missed", async () => {
    const world = new World();
    await world.start();
    await world.clock.advance(3_000);
    const before = world.server.calls("sync").length;
    world.clock.suspend(10 * 60_000);
    const command = world.queue();
    await world.clock.advance(5_000);
    expect(command.status).toBe("running");
    expect(world.server.calls("sync").length - before).toBe(1);
  });

  test("does not use a go-ahead that it slept on: it asks once more", async () => {
    const world = new World();
    world.queue();
    const transport = world.server.transport;
    let slept = false;
    await world.start({
      transport: async (url, init) => {
        const answer = await transport(url, init);
        if (url.endsWith("/start") && !slept) {
          slept = true;
          world.clock.suspend(10 * 60_000);
        }
        return answer;
      },
    });
    expect(world.engine.runs).toHaveLength(0);
    await world.clock.advance(20_000);
    expect(world.server.calls("start")).toHaveLength(2);
    expect(world.engine.runs).toHaveLength(1);
  });

  test("past its lease with a Graph running, takes the run up again", async () => {
    const world = new World();
    const command = world.queue();
    await world.start();
    world.clock.suspend(30 * 60_000);
    command.status = "lost";
    await world.clock.advance(3_000);
    expect(command.status).toBe("running");
    world.engine.last.end();
    await settle();
    expect(command.status).toBe("completed");
  });
});

describe("the device's token", () => {
  test("is renewed before it ends, and one request serves all who need it", async () => {
    const world = new World();
    await world.start();
    await world.clock.advance(HOUR);
    expect(world.server.calls("token")).toHaveLength(Math.ceil(60 / 14));
    expect(new Set(world.server.assertions).size).toBe(world.server.assertions.length);
  });

  test("that is refused early is renewed once, and the call made again", async () => {
    const world = new World();
    await world.start();
    world.server.token++;
    const command = world.queue();
    await world.clock.advance(20_000);
    expect(command.status).toBe("running");
    expect(world.server.calls("token")).toHaveLength(2);
  });

  test("that is refused again and again is not fetched without pause", async () => {
    const world = new World();
    world.server.fault = ({ call }) => (call === "sync" ? { error: "token_invalid" } : undefined);
    await world.start();
    await world.clock.advance(HOUR);
    expect(world.server.calls("token").length).toBeLessThan(200);
    expect(world.end).toBeUndefined();
  });

  test("is asked for at the token endpoint's own address", async () => {
    const world = new World();
    await world.start();
    expect(world.server.assertions[0]).toMatch(
      /^https:\/\/relay\.example\/external-assistants\/graph-relays\/token@\d+$/,
    );
  });

  test("a key that cannot sign ends the relay with what to do", async () => {
    const world = new World();
    await world.start({
      signer: {
        sign: async () => {
          throw new Error("bad key");
        },
      },
    });
    expect(world.end?.refused?.text).toContain("graph-relay login");
  });
});
