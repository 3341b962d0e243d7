import { describe, expect, test } from "vitest";
import { boundCompletion } from "../../src/protocol/completion.ts";
import { LIMITS } from "../../src/protocol/limits.ts";
import { settle } from "./support/clock.ts";
import type { Fault, SeenCall } from "./support/server.ts";
import { World } from "./support/world.ts";

/** Runs these commands to their end while the server takes no outcome, so that they wait in the outbox. */
async function waiting(results: readonly string[]): Promise<World> {
  const world = new World();
  world.server.fault = ({ call }) => (call === "complete" ? "cut" : undefined);
  for (const _ of results) world.queue();
  await world.start();
  for (const result of results) {
    world.engine.last.end({ result_json: JSON.stringify(result) });
    await world.clock.advance(61_000);
  }
  expect(world.store.outbox.pending()).toHaveLength(results.length);
  return world;
}
const ids = (world: World) => [...world.server.commands.keys()];
const failing = (id: string | undefined, fault: Fault) => (seen: SeenCall) =>
  seen.call === "complete" && seen.commandId === id ? fault : undefined;

describe("the outbox", () => {
  test.each([
    ["400", { error: "invalid_request" }],
    ["409", { error: "session_conflict" }],
    ["413", { error: "body_too_large" }],
    ["413 of a proxy", { status: 413, body: "<html>" }],
    ["400 of a proxy", { status: 400, body: "<html>" }],
    ["409 of a proxy", { status: 409, body: "" }],
    ["410 of a proxy", { status: 410, body: "gone" }],
    ["422 of a proxy", { status: 422, body: "{}" }],
  ] as [string, Fault][])(
    "one item refused with %s holds up none of the three behind it, and is shown",
    async (_, fault) => {
      const world = await waiting(["bad", "good 1", "good 2", "good 3"]);
      const [bad, ...good] = ids(world);
      world.server.fault = failing(bad, fault);
      await world.clock.advance(10 * 60_000);
      expect(good.map((id) => world.server.commands.get(id)?.completion?.result)).toEqual([
        "good 1",
        "good 2",
        "good 3",
      ]);
      expect(world.store.outbox.pending()).toEqual([]);
      expect(world.store.outbox.deadLetters().map((letter) => letter.command_id)).toEqual([bad]);
      expect(world.lines.join("\n")).toContain("graph-relay status");
      const execution = world.store.outbox.deadLetters()[0]?.completion.execution_id ?? "";
      expect(world.store.history.find(execution)?.result_json).toBe('"bad"');
    },
  );

  test("one item that only fails again and again holds up none behind it, and is kept", async () => {
    const world = await waiting(["bad", "good"]);
    const [bad, good] = ids(world);
    world.server.fault = failing(bad, { error: "internal" });
    await world.clock.advance(60_000);
    expect(world.server.commands.get(good ?? "")?.status).toBe("completed");
    await world.clock.advance(24 * 3_600_000);
    expect(world.store.outbox.pending()).toMatchObject([
      { command_id: bad, last_failure: "The server failed. Try again later." },
    ]);
    world.server.fault = () => undefined;
    await world.clock.advance(61_000);
    expect(world.server.commands.get(bad ?? "")?.completion?.result).toBe("bad");
  });

  test("no further run is taken up before the outcome of the last one is on the disk", async () => {
    const world = new World();
    world.queue();
    const second = world.queue();
    const { attempts } = world.store;
    let full = true;
    const store = {
      ...world.store,
      attempts: {
        ...attempts,
        finish: (...args: Parameters<typeof attempts.finish>) => {
          if (full) throw new Error("The state file cannot be written: the disk is full.");
          return attempts.finish(...args);
        },
      },
    };
    await world.start({ store });
    world.engine.last.end();
    await world.clock.advance(5 * 60_000);
    expect(world.engine.runs).toHaveLength(1);
    expect(world.server.calls("complete")).toHaveLength(0);
    // The lease is kept all the while.
    expect(world.server.calls("control").length).toBeGreaterThan(90);
    expect(world.lines.join("\n")).toContain("disk is full");
    full = false;
    await world.clock.advance(5_000);
    expect(world.server.calls("complete")).toHaveLength(1);
    expect(second.status).toBe("running");
  });

  test("a server that takes syncs and starts but no outcomes gets further runs only as their outcomes are saved", async () => {
    const world = await waiting(["one", "two", "three"]);
    expect(world.store.outbox.pending().map((item) => item.completion.result)).toEqual([
      "one",
      "two",
      "three",
    ]);
    expect(world.store.outbox.pending().every((item) => item.last_failure !== null)).toBe(true);
  });

  test("an outcome is sent again while another Graph runs", async () => {
    const world = await waiting(["one"]);
    world.queue();
    await world.clock.advance(20_000);
    world.server.fault = () => undefined;
    await world.clock.advance(61_000);
    expect(world.server.commands.get(ids(world)[0] ?? "")?.status).toBe("completed");
  });

  test("an item is deleted only after an answer of ours", async () => {
    for (const fault of ["html", "redirect", { status: 204 }, { status: 200, body: "{}" }] as Fault[]) {
      const world = await waiting(["kept"]);
      world.server.fault = ({ call }) => (call === "complete" ? fault : undefined);
      await world.clock.advance(120_000);
      expect(world.store.outbox.pending()).toHaveLength(1);
    }
  });

  test("a dead letter that is revived is sent at once", async () => {
    const world = await waiting(["bad"]);
    const [bad = ""] = ids(world);
    world.server.fault = failing(bad, { error: "invalid_request" });
    await world.clock.advance(61_000);
    expect(world.store.outbox.deadLetters()).toHaveLength(1);
    world.server.fault = () => undefined;
    expect(world.store.outbox.revive(bad)).toBe(true);
    world.store.projects.bumpSharingVersion();
    await world.clock.advance(1_000);
    expect(world.server.commands.get(bad)?.status).toBe("completed");
    expect(world.store.outbox.deadLetters()).toEqual([]);
  });

  test("a result that is refused as too large goes once more without its bulk", async () => {
    const world = new World();
    const command = world.queue();
    world.server.fault = ({ call, length }) =>
      call === "complete" && length > 300 ? { error: "body_too_large" } : undefined;
    await world.start();
    world.engine.last.end({ result_json: JSON.stringify("x".repeat(5_000)) });
    await settle();
    expect(command.completion).toMatchObject({ status: "completed", result_truncated: true });
    expect(world.server.calls("complete")).toHaveLength(2);
    expect(world.store.outbox.deadLetters()).toEqual([]);
  });
});

const ALPHABETS: readonly [name: string, character: string][] = [
  ["ASCII", "a"],
  ["Korean", "한"],
  ["emoji", "😀"],
];

describe("the bound of a completion", () => {
  for (const [name, character] of ALPHABETS)
    for (const size of [LIMITS.completionCharacters, LIMITS.completionCharacters + 1])
      test(`${size} characters of ${name}: ${size > LIMITS.completionCharacters ? "left out as a whole" : "sent as a whole"}`, async () => {
        const world = new World();
        const command = world.queue();
        await world.start();
        const { execution_id } = world.engine.last.request;
        const rest = { execution_id, status: "completed" as const, total_tokens: null, reported_cost: null };
        const room = size - JSON.stringify({ ...rest, result: "" }).length;
        // An odd room is filled up with one ASCII character.
        const result = character.repeat(Math.floor(room / character.length)).padEnd(room, "a");
        expect(JSON.stringify({ ...rest, result }).length).toBe(size);
        world.engine.last.end({ result_json: JSON.stringify(result) });
        await settle();
        expect(command.status).toBe("completed");
        if (size > LIMITS.completionCharacters)
          expect(command.completion).toEqual({ execution_id, status: "completed", result_truncated: true });
        else expect(command.completion?.result).toBe(result);
        expect(world.store.history.find(execution_id)?.result_json).toBe(JSON.stringify(result));
      });

  test("an error is cut at 2,000 characters, never inside an emoji", async () => {
    for (const [error, length] of [
      [`${"e".repeat(1_999)}😀`, 1_999],
      [`${"e".repeat(1_998)}😀`, 2_000],
      ["e".repeat(2_001), 2_000],
    ] as const) {
      const world = new World();
      const command = world.queue();
      await world.start();
      world.engine.last.end({ status: "failed", error });
      await settle();
      expect(command.completion?.error).toBe(error.slice(0, length));
      expect(command.completion?.error?.isWellFormed()).toBe(true);
      expect(world.store.history.list(1)[0]?.error).toBe(error);
    }
  });

  test.each([
    ["NUL and control characters", '"a\\u0000b\\u001b"', "a\u0000b\u001b"],
    ["a lone surrogate", '"\\ud83d"', "\ud83d"],
    ["a key named __proto__", '{"__proto__":{"x":1},"constructor":2}', undefined],
    ["a large whole number", "1152921504606847000", 2 ** 60],
    ["null", "null", null],
  ])("a result with %s arrives as it is", async (_, text, value) => {
    const world = new World();
    const command = world.queue();
    await world.start();
    world.engine.last.end({ result_json: text });
    await settle();
    expect(JSON.stringify(command.completion?.result)).toBe(JSON.stringify(JSON.parse(text)));
    if (value !== undefined) expect(command.completion?.result).toEqual(value);
  });

  test.each([
    ["nests 10,000 deep", "[".repeat(10_000) + "]".repeat(10_000), "nests deeper"],
    ["has a number past a double", "[1e400]", "outside the range"],
  ])("a result that %s is left out with the reason, and whole in the history", async (_, text, reason) => {
    const world = new World();
    const command = world.queue();
    await world.start();
    world.engine.last.end({ result_json: text });
    await settle();
    expect(command.completion).toMatchObject({ status: "completed", result_truncated: true });
    expect(command.completion?.error).toContain(reason);
    expect(world.store.history.list(1)[0]?.result_json).toBe(text);
  });

  test("a result of 5 MB is left out, and whole in the history", async () => {
    const world = new World();
    const command = world.queue();
    await world.start();
    const text = JSON.stringify("x".repeat(5_000_000));
    world.engine.last.end({ result_json: text });
    await settle();
    expect(command.completion?.result_truncated).toBe(true);
    expect(world.store.history.list(1)[0]?.result_json).toBe(text);
  });

  test("counts that are no counts are left out rather than refused by the server", async () => {
    const world = new World();
    const command = world.queue();
    await world.start();
    world.engine.last.end({ total_tokens: Number.NaN, reported_cost: Number.POSITIVE_INFINITY });
    await settle();
    expect(command.completion).toMatchObject({ total_tokens: null, reported_cost: null });
  });

  test("what is sent is what the protocol's bound says", async () => {
    const world = new World();
    const command = world.queue();
    await world.start();
    const { execution_id } = world.engine.last.request;
    world.engine.last.end({ result_json: '{"a":[1,2]}', total_tokens: 5, reported_cost: 0.25 });
    await settle();
    expect(command.completion).toEqual(
      boundCompletion({
        execution_id,
        status: "completed",
        result: { a: [1, 2] },
        total_tokens: 5,
        reported_cost: 0.25,
      }),
    );
  });
});
