import { describe, expect, test } from "vitest";
import { WAKE_CLOSES } from "../../src/protocol/wake.ts";
import { settle } from "./support/clock.ts";
import { OTHER_PROJECT, PROJECT } from "./support/server.ts";
import { FakeSockets, refusal } from "./support/wake.ts";
import { GRAPH, SECOND_GRAPH, World } from "./support/world.ts";

const SECOND = 1_000;
const MINUTE = 60 * SECOND;

/** A laptop whose relay has wake sockets. */
function woken() {
  const world = new World();
  const sockets = new FakeSockets(world.clock.monotonic);
  const start = (concurrency = 1) => world.start({ wakeSocket: sockets.connect }, concurrency);
  return { world, sockets, start };
}
async function started() {
  const one = woken();
  await one.start();
  return one;
}
const syncs = (world: World) => world.server.calls("sync").length;

describe("a wake", () => {
  test("brings a new command at once, and the clock does not move", async () => {
    const { world, sockets } = await started();
    const command = world.queue();
    await settle();
    expect(command.status).toBe("queued");
    sockets.last.wake();
    await settle();
    expect(command.status).toBe("running");
  });

  test("however many come at once, and during a pass, one pass follows", async () => {
    const { world, sockets } = await started();
    const before = syncs(world);
    for (let n = 0; n < 50; n++) sockets.last.wake();
    await settle();
    expect(syncs(world) - before).toBe(1);
    let hung = false;
    world.server.fault = ({ call }) => {
      if (call !== "sync" || hung) return undefined;
      hung = true;
      return "hang";
    };
    sockets.last.wake();
    await settle();
    for (let n = 0; n < 50; n++) sockets.last.wake();
    await world.clock.advance(31 * SECOND);
    expect(syncs(world) - before, "the one that hung, and one after it").toBe(3);
  });

  test("looks at once whether a run was cancelled, of this project alone", async () => {
    const { world, sockets, start } = woken();
    world.store.projects.share(OTHER_PROJECT, SECOND_GRAPH.graph_session_id, 0);
    const command = world.queue();
    world.server.queue(SECOND_GRAPH, {}, OTHER_PROJECT);
    await start(2);
    expect(world.engine.runs).toHaveLength(2);
    command.cancel_requested = true;
    sockets.open.find((socket) => socket.projectId === PROJECT)?.wake();
    await settle();
    expect(world.engine.runs.map((run) => run.stops)).toEqual([1, 0]);
    expect(world.server.calls("control")).toHaveLength(1);
  });

  test("does not break the silence that the server asked for", async () => {
    const { world, sockets } = await started();
    world.server.fault = ({ call }) =>
      call === "sync" ? { error: "unavailable", headers: { "retry-after": "120" } } : undefined;
    await world.clock.advance(20 * SECOND);
    const before = syncs(world);
    sockets.last.wake();
    await world.clock.advance(119 * SECOND);
    expect(syncs(world)).toBe(before);
  });

  test("that is lost costs no more than the wait for the next pass", async () => {
    const { world, sockets } = await started();
    const command = world.queue();
    expect(sockets.open).toHaveLength(1);
    await world.clock.advance(20 * SECOND);
    expect(command.status).toBe("running");
  });
});

describe("the sockets", () => {
  test("are opened at once at the start, one for each enabled project, with the token", async () => {
    const { world, sockets, start } = woken();
    world.store.projects.share(OTHER_PROJECT, GRAPH.graph_session_id, 0);
    await start();
    expect(sockets.open.map(({ projectId, token }) => [projectId, token])).toEqual([
      [PROJECT, "token-1"],
      [OTHER_PROJECT, "token-1"],
    ]);
    expect(world.server.calls("token")).toHaveLength(1);
    await world.clock.advance(10 * MINUTE);
    expect(sockets.all).toHaveLength(2);
  });

  test("follow what the owner enables and disables", async () => {
    const { world, sockets } = await started();
    world.store.projects.share(OTHER_PROJECT, GRAPH.graph_session_id, 0);
    world.store.projects.setEnabled(PROJECT, false);
    await world.clock.advance(SECOND);
    expect(sockets.open.map(({ projectId }) => projectId)).toEqual([OTHER_PROJECT]);
    await world.clock.advance(MINUTE);
    expect(sockets.all).toHaveLength(2);
  });

  test("are followed by a pass: what came before they were open is not left waiting", async () => {
    const { world, sockets } = await started();
    sockets.upgrade = () => "hang";
    sockets.last.close(1006);
    await world.clock.advance(30 * SECOND);
    const command = world.queue();
    sockets.last.open();
    await settle();
    expect(command.status).toBe("running");
  });

  test("are closed at once when the relay is to stop, also one that is being opened, and no timer is left", async () => {
    for (const how of ["drain", "cancel"] as const) {
      const { world, sockets, start } = woken();
      world.store.projects.share(OTHER_PROJECT, GRAPH.graph_session_id, 0);
      sockets.upgrade = ({ projectId }) => (projectId === PROJECT ? "open" : "hang");
      world.queue();
      const relay = await start();
      expect(sockets.all.map(({ state }) => state)).toEqual(["open", "upgrading"]);
      relay[how]();
      expect(sockets.all.map(({ state }) => state)).toEqual(["over", "over"]);
      world.engine.last.end();
      await settle();
      expect(world.end).toEqual({ unsent: 0 });
      expect(world.clock.sleeping).toBe(0);
      expect(sockets.all).toHaveLength(2);
    }
  });

  test("leave no timer behind, however often they come and go", async () => {
    const { world, sockets } = await started();
    let n = 0;
    sockets.upgrade = () => (n++ % 3 === 0 ? refusal("unavailable") : "open");
    for (let round = 0; round < 300; round++) {
      for (const socket of sockets.open) socket.close(1006);
      await world.clock.advance(MINUTE);
    }
    expect(sockets.all.length).toBeGreaterThan(300);
    world.relay?.drain();
    await settle();
    expect(world.clock.sleeping).toBe(0);
  });
});

describe("an open socket", () => {
  test("is pinged every 30 to 45 s", async () => {
    const { world, sockets } = await started();
    await world.clock.advance(30 * MINUTE);
    const { pings } = sockets.last;
    const gaps = pings.slice(1).map((at, i) => at - (pings[i] ?? 0));
    expect(gaps.length).toBeGreaterThan(30);
    expect(Math.min(...gaps)).toBeGreaterThanOrEqual(30 * SECOND);
    expect(Math.max(...gaps)).toBeLessThanOrEqual(45 * SECOND);
    expect(sockets.all).toHaveLength(1);
  });

  test("that does not answer a ping within 15 s is ended and replaced", async () => {
    const { world, sockets } = await started();
    sockets.last.answersPings = false;
    await world.clock.advance(60 * SECOND);
    expect(sockets.all[0]?.state).toBe("over");
    expect(sockets.all[0]?.pings).toHaveLength(1);
    await world.clock.advance(30 * SECOND);
    expect(sockets.open).toHaveLength(1);
  });

  test("that the machine slept on is replaced at once", async () => {
    for (let n = 0; n < 8; n++) {
      const { world, sockets, start } = woken();
      world.bytes(4 * n);
      await start();
      await world.clock.advance(7 * SECOND);
      world.clock.suspend(10 * MINUTE);
      await world.clock.advance(5 * SECOND);
      expect(sockets.all).toHaveLength(2);
      expect(sockets.open).toHaveLength(1);
    }
  });
});

describe("after a cut", () => {
  test("the relays of a server that restarts come back spread over half a minute", async () => {
    const waits: number[] = [];
    for (let n = 0; n < 40; n++) {
      const { world, sockets } = woken();
      world.bytes(4 * n);
      await world.start({ wakeSocket: sockets.connect });
      sockets.last.close(1012);
      let waited = 0;
      while (sockets.all.length < 2) {
        await world.clock.advance(SECOND);
        waited++;
      }
      waits.push(waited);
    }
    expect(Math.max(...waits)).toBeLessThanOrEqual(30);
    for (const third of [0, 10, 20])
      expect(waits.filter((wait) => wait > third && wait <= third + 10).length).toBeGreaterThan(5);
  }, 20_000);

  test("pauses stay below a minute, and one that opens only now and then keeps them long", async () => {
    const { world, sockets } = await started();
    const from = world.clock.monotonic();
    for (let n = 0; n < 60; n++) {
      sockets.last.close(1006);
      const asked = sockets.all.length;
      let waited = 0;
      while (sockets.all.length === asked) {
        await world.clock.advance(SECOND);
        waited++;
      }
      expect(waited).toBeLessThanOrEqual(60);
    }
    expect((world.clock.monotonic() - from) / 60).toBeGreaterThan(20 * SECOND);
  });

  test("a minute of health brings the short pauses back", async () => {
    const { world, sockets } = await started();
    for (let n = 0; n < 40; n++) {
      await world.clock.advance(MINUTE);
      sockets.last.close(1006);
      await world.clock.advance(30 * SECOND);
      expect(sockets.open).toHaveLength(1);
    }
  });

  test("because another relay took the socket, this one leaves it that and polls", async () => {
    const { world, sockets } = await started();
    sockets.last.close(WAKE_CLOSES.replaced.code);
    await world.clock.advance(14 * MINUTE);
    expect(sockets.all).toHaveLength(1);
    const command = world.queue();
    await world.clock.advance(20 * SECOND);
    expect(command.status).toBe("running");
    await world.clock.advance(MINUTE);
    expect(sockets.all).toHaveLength(2);
    expect(world.lines.filter((line) => line.includes("Another relay"))).toHaveLength(1);
  });

  test("because the device was removed, a pass tells it for sure, and the relay ends", async () => {
    const { world, sockets } = await started();
    world.server.fault = ({ call }) => (call === "sync" ? { error: "device_removed" } : undefined);
    sockets.last.close(WAKE_CLOSES.device_removed.code);
    await settle();
    expect(world.end?.refused?.code).toBe("device_removed");
    expect(world.clock.sleeping).toBe(0);
  });
});

describe("an upgrade that is refused", () => {
  test("for its token is made again with a new one", async () => {
    const { world, sockets, start } = woken();
    sockets.upgrade = ({ token }) => (token === "token-1" ? refusal("token_invalid") : "open");
    await start();
    expect(sockets.all.map(({ token }) => token)).toEqual(["token-1", "token-2"]);
    expect(sockets.open).toHaveLength(1);
    expect(world.server.calls("token")).toHaveLength(2);
  });

  test("again and again for its token fetches no token without pause", async () => {
    const { world, sockets, start } = woken();
    sockets.upgrade = () => refusal("token_invalid");
    await start();
    await world.clock.advance(60 * MINUTE);
    expect(world.server.calls("token").length).toBeLessThan(200);
    expect(world.end).toBeUndefined();
  });

  test("because the token is older than the project is made again with a new one", async () => {
    const { sockets, start } = woken();
    sockets.upgrade = ({ token }) => (token === "token-1" ? refusal("project_not_found") : "open");
    await start();
    expect(sockets.open).toHaveLength(1);
  });

  test.each(["device_removed", "version_unsupported"] as const)("with %s ends the relay", async (code) => {
    const { world, sockets, start } = woken();
    sockets.upgrade = () => refusal(code);
    await start();
    await world.clock.advance(SECOND);
    expect(world.end?.refused?.code).toBe(code);
    expect(world.clock.sleeping).toBe(0);
  });

  test("by a busy server is made again after what it asks for, and is no sign of a closed network", async () => {
    const { world, sockets, start } = woken();
    sockets.upgrade = () => refusal("unavailable", { "retry-after": "100" });
    await start();
    await world.clock.advance(99 * SECOND);
    expect(sockets.all).toHaveLength(1);
    await world.clock.advance(10 * MINUTE);
    expect(sockets.all.length).toBeGreaterThan(4);
    expect(world.lines.join("\n")).not.toContain("wake socket");
  });

  const BLOCKED = [
    ["a proxy's page", { status: 403, headers: new Headers(), body: "<html>Not allowed</html>" }],
    ["a cut", { error: new Error("socket hang up") }],
    ["silence", "hang"],
  ] as const;
  test.each(BLOCKED)(
    "twice by %s is left at that for 15 minutes, with the passes going on",
    async (_, fate) => {
      const { world, sockets, start } = woken();
      sockets.upgrade = () => fate;
      await start();
      await world.clock.advance(2 * MINUTE);
      expect(sockets.all).toHaveLength(2);
      const command = world.queue();
      await world.clock.advance(20 * SECOND);
      expect(command.status).toBe("running");
      await world.clock.advance(12 * MINUTE);
      expect(sockets.all).toHaveLength(2);
      sockets.upgrade = () => "open";
      await world.clock.advance(2 * MINUTE);
      expect(sockets.open).toHaveLength(1);
      expect(world.lines.filter((line) => line.includes("every 20 s"))).toHaveLength(1);
    },
  );

  test("now and then, with sockets that open in between, is no sign of a closed network", async () => {
    const { world, sockets } = await started();
    for (let n = 0; n < 10; n++) {
      sockets.upgrade = () => ({ error: new Error("socket hang up") });
      const asked = sockets.all.length;
      sockets.last.close(1006);
      while (sockets.all.length === asked) await world.clock.advance(SECOND);
      sockets.upgrade = () => "open";
      await world.clock.advance(MINUTE);
      expect(sockets.open).toHaveLength(1);
    }
  });

  test("by a server that knows no such call is left at that for 15 minutes", async () => {
    const { world, sockets, start } = woken();
    const body = JSON.stringify({ error: "not_found", error_description: "There is nothing here" });
    sockets.upgrade = () => ({ status: 404, headers: new Headers(), body });
    await start();
    await world.clock.advance(14 * MINUTE);
    expect(sockets.all).toHaveLength(1);
  });

  test("while the network is gone is made at once when passes get through again", async () => {
    const { world, sockets } = await started();
    world.server.fault = () => "cut";
    sockets.upgrade = () => ({ error: new Error("getaddrinfo ENOTFOUND") });
    sockets.last.close(1006);
    await world.clock.advance(5 * MINUTE);
    const tried = sockets.all.length;
    world.server.fault = () => undefined;
    await world.clock.advance(MINUTE);
    expect(sockets.all.length, "once, and not given up again at once").toBe(tried + 1);
    sockets.upgrade = () => "open";
    await world.clock.advance(MINUTE);
    expect(sockets.open).toHaveLength(1);
  });
});

describe("without sockets", () => {
  test("the relay polls, and nothing else changes", async () => {
    const world = new World();
    const command = world.queue();
    await world.start();
    expect(command.status).toBe("running");
    expect(world.clock.sleeping).toBe(2);
  });
});
