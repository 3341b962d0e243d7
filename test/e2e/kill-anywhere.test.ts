import { DatabaseSync } from "node:sqlite";
import { setTimeout as wait } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { planOf } from "../kill/plan.ts";
import { AT_CALL, AT_STATEMENT, type End, hold, Pool, wayTo } from "../kill/points.ts";
import { objectFile } from "../kill/records.ts";
import { strike } from "../kill/strike.ts";
import { KillWorld, until } from "../kill/world.ts";
import { type CallKind, TREATMENTS, type TreatmentName } from "../support/chaos-proxy.ts";
import type { RealRelay } from "../support/real-relay.ts";

// A real endpoint, real relays and a proxy between them. After each kill the guarantees are read from the
// databases of both sides and from the marks that the Graph leaves (test/kill/invariants.ts).

const LAPTOPS = 11;
const RANDOM_POINTS = 10;
const RANDOM_LAPTOPS = 3;
/** Another seed's random points: `GRAPH_RELAY_KILL_SEED=7 npm test`. */
const SEED = process.env.GRAPH_RELAY_KILL_SEED ?? "48";
const CALLS: readonly CallKind[] = ["token", "sync", "start", "control", "complete"];

let world: KillWorld;
let laptops: Pool;
beforeAll(async () => {
  world = await KillWorld.open(LAPTOPS);
  laptops = new Pool(world.relays);
});
afterAll(() => world?.close());

/** The guarantees hold once all is at rest, and nothing outlives the relay. */
async function expectWhole(relays: readonly RealRelay[]): Promise<void> {
  const logs = relays.map((relay) => relay.log()).join("\n");
  expect(await world.brokenAtRest(relays), logs).toEqual([]);
  expect(await world.leftovers(relays)).toEqual([]);
}

describe.concurrent("kill -9 of the relay", () => {
  /** Asks for a run, starts the relay so that it dies with it, and sees how it ends after the next start. */
  async function die(end: End, ms: number | undefined, start: (relay: RealRelay, id: string) => void) {
    await laptops.with(async (relay) => {
      const asked = await world.ask(relay, ms === undefined ? {} : { ms });
      const [id = ""] = asked.tickets;
      const deaths = relay.deaths.length;
      start(relay, id);
      await until("the relay is killed", () => relay.deaths.length > deaths);
      expect(world.brokenNow([relay])).toEqual([]);
      await expectWhole([relay]);
      const begins = relay.marks().filter(({ what, key }) => what === "begin" && key === asked.key);
      expect([world.run(asked)?.state, begins.length]).toEqual(end);
    });
  }

  test.each(AT_STATEMENT)("%s", (_, at, end) =>
    die(end, 0, (relay, id) => relay.start({ ...at, texts: [...at.texts, id], nth: 1 })),
  );

  test.each(AT_CALL)("%s: %s", (kind, way, end) =>
    die(end, kind === "control" ? undefined : 0, (relay) => {
      relay.proxy.next(
        kind,
        wayTo(way, () => relay.kill9()),
      );
      relay.start();
    }),
  );

  test("in the middle of a run: the Graph ends with it", () =>
    die(["failed", 1], undefined, (relay) => {
      const marks = relay.marks().length;
      relay.start();
      void until("the Graph runs", () => relay.marks().length > marks).then(() => relay.kill9());
    }));
});

describe("kill -9 of the endpoint", () => {
  const POINTS: readonly [kind: CallKind, way: "before" | "half-way in" | "after"][] = [
    ["token", "after"],
    ["sync", "after"],
    ["start", "before"],
    ["start", "after"],
    ["control", "after"],
    ["complete", "before"],
    ["complete", "half-way in"],
    ["complete", "after"],
  ];

  test("at every call at once, in the middle of a run, with a result that waits, and while it is asked", async () => {
    const atCall = world.relays.slice(0, POINTS.length);
    const [running, waiting, idle] = world.relays.slice(POINTS.length) as [RealRelay, RealRelay, RealRelay];
    const holds = await Promise.all(
      POINTS.map(async ([kind, way], i) => {
        const relay = atCall[i] as RealRelay;
        await world.ask(relay, { ms: kind === "control" ? 3_500 : 0 });
        const held = hold(relay.proxy, kind, way);
        relay.start();
        return held;
      }),
    );
    const inRun = await world.ask(running);
    running.start();
    // Its result is on the laptop alone; meanwhile its lease runs out.
    const late = await world.ask(waiting, { ms: 0 });
    waiting.start({ texts: ["INSERT INTO outbox"], nth: 1, atCommit: true, when: "after" });
    await waiting.gone();
    const cancelled = await world.ask(idle);
    await world.cancel(cancelled);
    const unheard = [hold(world.agentProxy, "mcp", "before"), hold(world.agentProxy, "mcp", "after")];
    const asking = [world.ask(idle, { ms: 0 }), world.ask(idle, { ms: 0 })];
    await until("the Graph runs", () => running.marks().some(({ key }) => key === inRun.key));
    await Promise.all([...holds, ...unheard].map(({ reached }) => reached));

    await world.killEndpoint();
    expect(world.brokenNow(world.relays)).toEqual([]);
    for (const held of [...holds, ...unheard]) held.cut();
    running.letGo(inRun.key);
    endLease(late.tickets);
    await world.endpoint.restart();

    expect((await world.agent.get([...late.tickets][0] ?? "")).status).toBe("lost");
    await Promise.all(asking);
    await expectWhole(world.relays);
    expect(world.run(late)).toMatchObject({ state: "completed", late: true });
    expect(world.run(inRun)?.state).toBe("completed");
    expect(world.run(cancelled)?.state).toBe("cancelled");
  });

  /** Moves the end of a lease into the past, in the file of the stopped endpoint. */
  function endLease(ids: ReadonlySet<string>): void {
    const db = new DatabaseSync(objectFile(world.endpoint.state));
    const past = Date.now() - 1;
    for (const id of ids)
      db.prepare("UPDATE commands SET lease_until = ? WHERE command_id = ?").run(past, id);
    db.close();
  }
});

describe.concurrent("a network that fails at each call once", () => {
  /** Resolves once each of these calls was treated so; the relay does not wait for its next poll. */
  async function treatEach(relay: RealRelay, kinds: readonly CallKind[], name: TreatmentName) {
    const left = new Set(kinds);
    for (const kind of kinds)
      relay.proxy.next(kind, (exchange) => {
        left.delete(kind);
        return TREATMENTS[name](exchange);
      });
    relay.start();
    for (let looks = 0; left.size > 0 && looks < 120; looks++) {
      await wait(500);
      relay.proxy.cutSockets();
      relay.wake();
    }
    expect([...left], "the calls that did not come within a minute").toEqual([]);
  }

  const names = (Object.keys(TREATMENTS) as TreatmentName[]).filter((name) => name !== "413");
  test.each(names)("%s: executed once, and reported whole", (name) =>
    laptops.with(async (relay) => {
      const asked = await world.ask(relay, { ms: 3_200, characters: 5_000 });
      await treatEach(relay, CALLS, name);
      await expectWhole([relay]);
      expect(world.run(asked)?.state).toBe("completed");
    }),
  );

  test("413: a run whose start is refused says so, one whose result is refused comes without it", () =>
    laptops.with(async (relay) => {
      const refused = await world.ask(relay, { ms: 0 });
      refused.refused = true;
      await treatEach(relay, ["token", "sync", "start"], "413");
      await expectWhole([relay]);
      const asked = await world.ask(relay, { ms: 3_200, characters: 5_000 });
      await treatEach(relay, ["control", "complete"], "413");
      await expectWhole([relay]);
      expect(world.run(asked)?.outcome).toMatchObject({ status: "completed", result_truncated: true });
    }));
});

test(`${RANDOM_POINTS} random points of seed ${SEED}`, { timeout: 300_000 }, async () => {
  for (let n = 1; n <= RANDOM_POINTS; n++) {
    const plan = planOf(SEED, n, RANDOM_LAPTOPS);
    expect(await strike(world, plan), `seed ${SEED}, point ${n}: ${JSON.stringify(plan)}`).toEqual([]);
  }
  await expectWhole(world.relays);
});
