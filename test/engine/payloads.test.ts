import fc from "fast-check";
import { afterAll, describe, expect, test, vi } from "vitest";
import type { Json } from "../../relay-cli/engine/contract.ts";
import { toJsonText } from "../../relay-cli/engine/host/json-text.ts";
import { isJsonText } from "../../relay-cli/engine/json-check.ts";
import { createFrameDecoder, encodeFrames } from "../../relay-cli/engine/process/channel.ts";
import { checkLeftovers, openWorkshop } from "./support/workshop.ts";

// Each test starts processes; on a busy machine that alone takes seconds.
vi.setConfig({ testTimeout: 90_000 });

const shop = openWorkshop();
checkLeftovers();
afterAll(() => shop.close());

const nested = (depth: number): Json => {
  let value: Json = "deep";
  for (let i = 0; i < depth; i++) value = [value];
  return value;
};

describe("arguments and results arrive as they were, or not at all", () => {
  test("odd keys, NUL, lone surrogates and emoji, there and back", async () => {
    shop.graph("echo", "return api.args;");
    const text =
      '{"__proto__":{"x":1},"constructor":"c","toString":null,"hasOwnProperty":[],"nul":"a\\u0000b","lone":"\\ud83d","other":"\\udc00","emoji":"🏔️","korean":"안녕","":0,"line\\u2028end":"\\n","minus":-0.5,"big":1e308}';
    const { outcome } = await shop.run("echo", JSON.parse(text));
    expect(outcome.status).toBe("completed");
    expect(JSON.stringify(JSON.parse(outcome.result_json ?? ""))).toBe(JSON.stringify(JSON.parse(text)));
    expect(Object.keys(JSON.parse(outcome.result_json ?? ""))).toContain("__proto__");
  });

  test("no value is null; members that are undefined are left out", async () => {
    shop.graph("nothing", "");
    shop.graph("holes", "return { a: undefined, b: [undefined], c: new Date(0) };");
    expect((await shop.run("nothing")).outcome.result_json).toBe("null");
    expect((await shop.run("holes")).outcome.result_json).toBe('{"b":[null],"c":"1970-01-01T00:00:00.000Z"}');
  });

  test.each([
    ["a cycle", "const a = { b: [] }; a.b.push(a); return a;", /^NotJsonError: result\.b\[0\] holds itself/],
    ["a BigInt", "return { sums: [1n] };", /result\.sums\[0\] is a BigInt/],
    ["a function", "return { 'run me': () => 1 };", /result\["run me"\] is a function/],
    ["a symbol", "return Symbol('x');", /result is a symbol/],
    ["an infinite number", "return [1e400];", /result\[0\] is Infinity/],
    ["no number", "return { mean: 0 / 0 };", /result\.mean is NaN/],
    ["a Map", "return new Map([[1, 2]]);", /result is a Map, which JSON would empty/],
    ["bytes", "return new Uint8Array(3);", /result is binary data/],
    ["a promise within", "return { answer: Promise.resolve(1) };", /result\.answer is a Promise; await it/],
    [
      "201 levels",
      "let v = 1; for (let i = 0; i < 201; i++) v = [v]; return v;",
      /nests deeper than 200 levels/,
    ],
    [
      "100,000 levels",
      "let v = 1; for (let i = 0; i < 1e5; i++) v = [v]; return v;",
      /nests deeper than 200 levels/,
    ],
    ["a toJSON that throws", "return { toJSON() { throw new Error('not me'); } };", /not me/],
  ])("a result with %s is a clear error", async (name, body, error) => {
    const slug = name.replaceAll(/[^a-z]/gi, "-");
    shop.graph(slug, body);
    expect((await shop.run(slug)).outcome).toMatchObject({
      status: "failed",
      error: expect.stringMatching(error),
    });
  });

  test("200 levels are kept", async () => {
    shop.graph("deep", "let v = 'deep'; for (let i = 0; i < 200; i++) v = [v]; return v;");
    expect((await shop.run("deep")).result).toEqual(nested(200));
  });

  test("a result of 20 million characters comes whole, and this process is not held up", async () => {
    shop.graph(
      "large",
      "return { text: 'é🏔'.repeat(5_000_000), rows: Array.from({ length: 100_000 }, (_, i) => i) };",
    );
    let last = performance.now();
    let worst = 0;
    const timer = setInterval(() => {
      worst = Math.max(worst, performance.now() - last);
      last = performance.now();
    }, 5);
    const { outcome } = await shop.run("large");
    clearInterval(timer);
    const { text, rows } = JSON.parse(outcome.result_json ?? "");
    expect(text === "é🏔".repeat(5_000_000)).toBe(true);
    expect(rows).toHaveLength(100_000);
    expect(worst).toBeLessThan(3_000);
  });

  test("one over the most is refused, and says what to do", async () => {
    shop.graph("too-large", "return 'x'.repeat(64_000_001);");
    expect((await shop.run("too-large")).outcome.error).toMatch(
      /^RangeError: The result is 64000003 characters of JSON; the most is 64000000\. Return a summary/,
    );
  });

  test("an error's text is cut, never inside a surrogate pair", async () => {
    shop.graph("long-error", "throw new Error('x' + '🏔'.repeat(10_000));");
    const { error = "" } = (await shop.run("long-error")).outcome;
    expect(error.length).toBeLessThanOrEqual(8_000);
    expect(error.isWellFormed()).toBe(true);
  });
});

describe("the channel", () => {
  test("carries any text, however it is cut up on the way", () => {
    fc.assert(
      fc.property(
        fc.array(
          fc.json({ maxDepth: 3 }).map((t) => JSON.stringify(t)),
          { maxLength: 5 },
        ),
        fc.integer({ min: 1, max: 50 }),
        fc.integer({ min: 1, max: 40 }),
        (texts, pieceSize, chunkSize) => {
          const wire = Buffer.from(texts.flatMap((t) => [...encodeFrames("M", t, pieceSize)]).join(""));
          const decode = createFrameDecoder();
          const got = [];
          for (let i = 0; i < wire.length; i += chunkSize)
            got.push(...decode(wire.subarray(i, i + chunkSize)));
          expect(got.map((f) => f.text)).toEqual(texts);
        },
      ),
      { numRuns: 200 },
    );
  });

  test("holds no more than its bounds, and believes nothing after a fault", () => {
    const decode = createFrameDecoder({ M: 10, R: 20 });
    expect(decode(Buffer.from("M.12345678901\n"))).toEqual([
      { kind: "fault", text: "a message of more than 10 characters" },
    ]);
    expect(decode(Buffer.from("M.1\n"))).toEqual([]);
    const slow = createFrameDecoder({ M: 10, R: 20 });
    expect(slow(Buffer.from("M+12345\nM+67890\nM+1\n"))).toEqual([
      { kind: "fault", text: "a message of more than 10 characters" },
    ]);
  });
});

test("any JSON value's text is what JSON.stringify makes of it", () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      expect(toJsonText(value, "value")).toBe(JSON.stringify(value));
    }),
    { numRuns: 300 },
  );
});

describe("a result that the Graph's process forges", () => {
  const forge = (result: string): string =>
    `const { writeSync } = await import("node:fs"); writeSync(3, "R." + ${JSON.stringify(result)} + "\\nM.{\\"t\\":\\"done\\",\\"ok\\":true}\\n"); await new Promise(() => setTimeout(() => {}, 1e6));`;
  test("is taken if it is JSON, and a failed run if not", async () => {
    shop.graph("forged", forge('{"a":[1]}'));
    expect((await shop.run("forged")).result).toEqual({ a: [1] });
    for (const text of ["nonsense", '{"a":1', "[1,]", "", "[".repeat(201) + "]".repeat(201)]) {
      shop.graph("forged", forge(text));
      expect((await shop.run("forged")).outcome).toMatchObject({
        status: "failed",
        error: "The Graph's process sent a result that is no JSON.",
      });
    }
  });

  const parses = (text: string): boolean => {
    try {
      JSON.parse(text);
      return true;
    } catch {
      return false;
    }
  };
  test("JSON is told from anything else as JSON.parse does it", async () => {
    const piece = fc.constantFrom(
      "{",
      "}",
      "[",
      "]",
      ",",
      ":",
      '"',
      "\\",
      "\\u",
      "0",
      "1",
      "-",
      "+",
      ".",
      "e",
      "E",
      "true",
      "null",
      "nul",
      " ",
      "\n",
      "\t",
      "a",
      "\u0001",
      "\ud83d",
      '"a"',
      '"a":',
      "1e5",
      "00",
      "é",
    );
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(
          fc.array(piece, { maxLength: 8 }).map((p) => p.join("")),
          fc.json({ maxDepth: 4 }),
          fc
            .tuple(fc.json({ maxDepth: 3 }), fc.nat(), piece)
            .map(
              ([text, at, p]) =>
                text.slice(0, at % (text.length + 1)) + p + text.slice(at % (text.length + 1)),
            ),
        ),
        async (text) => {
          expect(await isJsonText(text, 200)).toBe(parses(text));
        },
      ),
      { numRuns: 3_000 },
    );
  });
});
