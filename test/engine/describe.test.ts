import { join } from "node:path";
import { afterAll, describe, expect, test, vi } from "vitest";
import { checkLeftovers, openWorkshop, shortGrace } from "./support/workshop.ts";

// Each test starts processes; on a busy machine that alone takes seconds.
vi.setConfig({ testTimeout: 90_000 });

const shop = openWorkshop();
afterAll(() => shop.close());
checkLeftovers({ descriptors: true });
const graph = (slug: string, source: string, extension?: string) => ({
  slug,
  path: shop.graph(slug, source, extension),
});
const TYPED = { slug: "typed", path: join(import.meta.dirname, "support/with-zod.graph.mts") };
const run = async (ref: typeof TYPED, args: object) =>
  shop.engine.run({
    execution_id: crypto.randomUUID(),
    channel: "graph:local:x",
    graph: ref,
    args: args as Record<string, never>,
    onEvent: () => {},
  });

describe("what a Graph says of itself", () => {
  test("comes from its meta, without its function being called", async () => {
    const ref = graph(
      "plain",
      `export const meta = { name: "Plain", description: "Says it.", version: "1.2.3", arguments: { type: "object", properties: { n: { type: "number" } } }, other: 1 };
       export default () => { throw new Error("called"); };`,
    );
    expect(await shop.engine.describe(ref)).toEqual({
      ok: true,
      meta: {
        name: "Plain",
        description: "Says it.",
        version: "1.2.3",
        arguments: { type: "object", properties: { n: { type: "number" } } },
      },
    });
  });

  test("may be nothing", async () => {
    expect(await shop.engine.describe(graph("bare", "export default () => 1;"))).toEqual({
      ok: true,
      meta: {},
    });
  });

  test("a Standard Schema is told as JSON Schema, in TypeScript too", async () => {
    expect(await shop.engine.describe(TYPED)).toMatchObject({
      ok: true,
      meta: {
        name: "Typed",
        arguments: {
          type: "object",
          properties: {
            to: { type: "string", format: "email", description: "Whom to write to." },
            copies: { type: "integer", maximum: 9 },
          },
          required: ["to"],
          additionalProperties: false,
        },
      },
    });
  });

  test("a Standard Schema that cannot be told as JSON Schema still checks the arguments", async () => {
    const ref = graph(
      "untold",
      `export const meta = { arguments: { "~standard": { version: 1, vendor: "t", validate: (v) => v.ok ? { value: { was: "checked" } } : { issues: [{ message: "not ok", path: [{ key: "ok" }] }] } } } };
       export default ({ args }) => args;`,
    );
    expect(await shop.engine.describe(ref)).toEqual({ ok: true, meta: {} });
    expect(await run(ref, { ok: true })).toMatchObject({ result_json: '{"was":"checked"}' });
    expect(await run(ref, {})).toMatchObject({
      status: "failed",
      error: expect.stringMatching(/^The arguments do not fit the Graph: ok: not ok/),
    });
  });

  test.each([
    ["the file is not there", { slug: "gone", path: "/nowhere/gone.mjs" }, /is not there/],
    [
      "the file is none of a Graph",
      { slug: "text", path: "/etc/hosts" },
      /A Graph is a \.js, \.mjs or \.ts file/,
    ],
  ])("it is an error in words when %s", async (_, ref, error) => {
    expect(await shop.engine.describe(ref)).toEqual({ ok: false, error: expect.stringMatching(error) });
  });

  test.each([
    ["does not parse", "export default async ( => 1", "mjs", /SyntaxError.*\(at does-not-parse\.mjs:1\)/],
    ["does not parse as TypeScript", "export default (a: = 1", "ts", /SyntaxError/],
    ["uses what only a compiler understands", "enum A { B } export default () => A.B;", "ts", /enum/],
    ["throws while it loads", "throw new Error('no luck'); export default 1;", "mjs", /no luck/],
    ["has a meta that is none", "export const meta = 3; export default () => 1;", "mjs", /meta is no object/],
    [
      "has arguments that are none",
      "export const meta = { arguments: [] }; export default () => 1;",
      "mjs",
      /must be a JSON Schema object or a Standard Schema/,
    ],
    [
      "has a meta that JSON cannot carry",
      "export const meta = { arguments: { x: 1n } }; export default () => 1;",
      "mjs",
      /meta\.arguments\.x is a BigInt/,
    ],
    [
      "asks for something while it is only looked at",
      "process.exit(0); export default () => 1;",
      "mjs",
      /ended its process/,
    ],
  ])("it is an error in words when the file %s", async (name, source, extension, error) => {
    expect(await shop.engine.describe(graph(name.replaceAll(" ", "-"), source, extension))).toEqual({
      ok: false,
      error: expect.stringMatching(error),
    });
  });
});

describe("arguments that do not fit are refused before the Graph runs, each fault named", () => {
  test("by a Standard Schema, whose defaults are filled in", async () => {
    expect(await run(TYPED, { to: "a@b.example" })).toMatchObject({
      status: "completed",
      result_json: '"a@b.example × 1"',
    });
    const { error } = await run(TYPED, { to: "nobody", copies: 10, x: 1 });
    expect(error).toMatch(/^The arguments do not fit the Graph: /);
    for (const fault of [/to: Invalid email/, /copies: Too big/, /arguments: Unrecognized key: "x"/])
      expect(error).toMatch(fault);
  });

  test("by a JSON Schema", async () => {
    const ref = graph(
      "schema",
      `export const meta = { arguments: { type: "object", required: ["name"], additionalProperties: false,
         properties: { name: { type: "string", minLength: 1 }, tags: { type: "array", items: { enum: ["a", "b"] } } } } };
       export default ({ args }) => args;`,
    );
    expect(await run(ref, { name: "x", tags: ["a"] })).toMatchObject({
      result_json: '{"name":"x","tags":["a"]}',
    });
    const { error = "" } = await run(ref, { tags: ["a", "c"], more: 1 });
    for (const fault of [/required property "name"/, /tags\.1: /, /more/]) expect(error).toMatch(fault);
    expect((await run(ref, JSON.parse('{"name":"x","__proto__":1}'))).error).toMatch(/__proto__/);
  });

  test("a pattern that takes for ever holds up the Graph's process alone, and can be stopped", async () => {
    const ref = graph(
      "slow-pattern",
      `export const meta = { arguments: { type: "object", properties: { s: { type: "string", pattern: "^(a+)+$" } } } };
       export default () => 1;`,
    );
    let worst = 0;
    let last = performance.now();
    const timer = setInterval(() => {
      worst = Math.max(worst, performance.now() - last);
      last = performance.now();
    }, 5);
    const quick = openWorkshop({}, { clock: shortGrace(200) });
    const outcome = await quick.engine.run({
      execution_id: crypto.randomUUID(),
      channel: "graph:local:x",
      graph: ref,
      args: { s: `${"a".repeat(60)}!` },
      onEvent(event) {
        if (event.type === "fleet_started")
          setTimeout(() => quick.engine.fleetCancelRun(event.run_id), 1_000);
      },
    });
    clearInterval(timer);
    quick.close();
    expect(outcome.status).toBe("cancelled");
    expect(worst).toBeLessThan(3_000);
  });
});
