import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { JsonObject } from "../../src/protocol/json.ts";
import { LIMITS } from "../../src/protocol/limits.ts";
import { findMisfits } from "../../src/worker/mcp/schema-fit.ts";
import { matchSteps } from "../../src/worker/mcp/schema-guard.ts";

const misfits = (schema: object, args: object) => findMisfits(JSON.stringify(schema), args as JsonObject);

describe("arguments that do not fit are told, fault by fault", () => {
  const schema = {
    type: "object",
    properties: {
      folder: { type: "string", minLength: 1, maxLength: 5 },
      depth: { type: "integer", minimum: 1, maximum: 9 },
      mode: { enum: ["fast", "slow"] },
      tags: { type: "array", items: { type: "string" }, maxItems: 2, uniqueItems: true },
    },
    required: ["folder"],
    additionalProperties: false,
  };

  it.each<[object, string]>([
    [{}, 'arguments: Instance does not have required property "folder"'],
    [{ folder: 5 }, 'arguments/folder: Instance type "number" is invalid. Expected "string"'],
    [{ folder: "" }, "arguments/folder: String is too short (0 < 1)"],
    [{ folder: "secret" }, "arguments/folder: String is too long (6 > 5)"],
    [{ folder: "a", depth: 31337 }, "arguments/depth: The number is greater than 9"],
    [{ folder: "a", depth: 1.5 }, 'arguments/depth: Instance type "number" is invalid. Expected "integer"'],
    [{ folder: "a", mode: "s3cret" }, 'arguments/mode: Instance does not match any of ["fast","slow"]'],
    [{ folder: "a", tags: ["x", "x"] }, "arguments/tags: Duplicate items at indexes 0 and 1"],
    [
      { folder: "a", tags: ["x", 7] },
      'arguments/tags/1: Instance type "number" is invalid. Expected "string"',
    ],
    [{ folder: "a", more: 1 }, "arguments/more: is not allowed"],
  ])("%j", (args, text) => {
    const found = misfits(schema, args);
    expect(found).toEqual([text]);
    expect(found.join()).not.toMatch(/s3cret|31337/);
  });

  it("names every fault, at most ten", () => {
    expect(misfits(schema, { depth: 0, mode: 1, x: 1 })).toHaveLength(4);
    const many = Object.fromEntries(Array.from({ length: 30 }, (_, i) => [`k${i}`, i]));
    expect(misfits(schema, { folder: "a", ...many })).toHaveLength(11);
  });

  it("names a long place in bounded text", () => {
    const [text = ""] = misfits(schema, { folder: "a", ["k".repeat(50_000)]: 1 });
    expect(text.length).toBeLessThanOrEqual(200);
  });

  it("takes what fits", () => {
    expect(misfits(schema, { folder: "a", depth: 3, mode: "fast", tags: ["a", "b"] })).toEqual([]);
    expect(misfits({}, { anything: [1, null, { x: {} }] })).toEqual([]);
  });

  it("follows references, choices and conditions, in the drafts people write", () => {
    const tree = {
      $defs: {
        node: { type: "object", properties: { next: { $ref: "#/$defs/node" }, n: { type: "number" } } },
      },
      $ref: "#/$defs/node",
    };
    expect(misfits(tree, { next: { next: { n: 1 } } })).toEqual([]);
    expect(misfits(tree, { next: { next: { n: "1" } } })).toHaveLength(1);
    const draft7 = { $schema: "http://json-schema.org/draft-07/schema#", properties: { a: { const: 1 } } };
    expect(misfits(draft7, { a: 2 })).toHaveLength(1);
    const choice = { oneOf: [{ required: ["a"] }, { required: ["b"] }] };
    expect(misfits(choice, { a: 1 })).toEqual([]);
    expect(misfits(choice, { a: 1, b: 1 })).not.toEqual([]);
  });

  it("keys that JavaScript objects inherit are there only if they were sent", () => {
    const strict = { properties: { constructor: { type: "string" }, ["__proto__"]: { type: "string" } } };
    const withProto = JSON.stringify(strict).replace(
      '"constructor"',
      '"__proto__":{"type":"string"},"constructor"',
    );
    expect(findMisfits(withProto, {})).toEqual([]);
    expect(findMisfits(withProto, { a: 1 })).toEqual([]);
    expect(findMisfits(withProto, JSON.parse('{"__proto__":5}'))).toHaveLength(1);
    expect(findMisfits(withProto, JSON.parse('{"constructor":5}'))).toHaveLength(1);
    expect(misfits({ required: ["toString"] }, {})).toHaveLength(1);
    expect(misfits({ additionalProperties: false }, JSON.parse('{"__proto__":1}'))).toHaveLength(1);
  });
});

describe("a schema that is no valid one finds nothing", () => {
  it.each<[string, object]>([
    ["an unknown reference", { $ref: "#/$defs/nothing" }],
    ["a remote reference", { $ref: "https://example.com/schema.json" }],
    ["a broken pattern", { properties: { a: { pattern: "(" } } }],
    ["an id that is no address", { $id: "http://[", type: "string" }],
    ["a keyword of the wrong type", { allOf: 5, properties: 7 }],
    ["the same id twice", { $defs: { a: { $id: "urn:x" }, b: { $id: "urn:x" } } }],
  ])("%s", (_, schema) => {
    expect(() => misfits(schema, { a: "x" })).not.toThrow();
  });
});

describe("the work is bounded, whatever schema and arguments a stranger picks", () => {
  const n = (count: number, make: (i: number) => unknown) => Array.from({ length: count }, (_, i) => make(i));
  const long = "a".repeat(99_000);
  const defs = Object.fromEntries(
    n(200, (i) => [
      `d${i}`,
      { allOf: [{ $ref: `#/$defs/d${Number(i) + 1}` }, { $ref: `#/$defs/d${Number(i) + 1}` }] },
    ]) as [string, object][],
  );
  let nested: unknown = 1;
  for (let i = 0; i < 190; i++) nested = [nested];

  it.each<[string, object, object]>([
    ["a reference to itself", { $ref: "#" }, {}],
    [
      "a reference in a circle",
      { $defs: { a: { $ref: "#/$defs/b" }, b: { $ref: "#/$defs/a" } }, $ref: "#/$defs/a" },
      {},
    ],
    ["references that double 200 times", { $defs: { ...defs, d200: {} }, $ref: "#/$defs/d0" }, {}],
    [
      "a circle that doubles at each of 190 levels",
      {
        properties: { a: { $ref: "#/$defs/n" } },
        $defs: { n: { items: { allOf: [{ $ref: "#/$defs/n" }, { $ref: "#/$defs/n" }] } } },
      },
      { a: nested },
    ],
    ["a pattern of nested repetitions", { properties: { a: { pattern: "^(a+)+$" } } }, { a: `${long}!` }],
    ["a pattern of repeated choices", { properties: { a: { pattern: "^(a|a)*$" } } }, { a: `${long}!` }],
    ["a pattern that may start anywhere", { properties: { a: { pattern: "a*b" } } }, { a: long }],
    ["a pattern of many repetitions", { properties: { a: { pattern: `${"a*".repeat(30)}b` } } }, { a: long }],
    ["a back reference", { properties: { a: { pattern: "^(a*)\\1b" } } }, { a: long }],
    ["names that a pattern chooses", { patternProperties: { "^(a+)+$": false } }, { [`${long}!`]: 1 }],
    ["a costly format", { properties: { a: { format: "url" } } }, { a: `http://${":".repeat(99_000)}` }],
    [
      "cheap formats of a long text",
      {
        properties: {
          a: {
            allOf: [
              "email",
              "hostname",
              "uri",
              "uri-reference",
              "ipv6",
              "date-time",
              "json-pointer",
              "uuid",
              "duration",
            ].map((format) => ({ format })),
          },
        },
      },
      { a: long },
    ],
    ["unique items", { properties: { a: { uniqueItems: true } } }, { a: n(24_000, (i) => ({ i })) }],
    [
      "a long enum against many values",
      { properties: { a: { items: { enum: n(1500, (i) => `x${i}`) } } } },
      { a: n(25_000, () => "y") },
    ],
    [
      "lengths of a long text, 500 times",
      { properties: { a: { allOf: n(500, () => ({ minLength: 1 })) } } },
      { a: long },
    ],
    [
      "choices times values",
      { properties: { a: { items: { anyOf: n(300, (i) => ({ const: i })) } } } },
      { a: n(24_000, () => -1) },
    ],
    ["25,000 faults", { properties: { a: { items: { type: "string" } } } }, { a: n(25_000, () => 1) }],
  ])("%s", (_, schema, args) => {
    const json = JSON.stringify(schema);
    if (json.length > LIMITS.argumentsSchemaCharacters * 2) throw new Error("the schema is over the limit");
    const began = performance.now();
    findMisfits(json, args as JsonObject);
    expect(performance.now() - began).toBeLessThan(1_500);
  });

  it("what is common is checked all the same", () => {
    const schema = {
      properties: {
        email: { format: "email" },
        day: { pattern: "^\\d{4}-\\d{2}-\\d{2}$" },
        name: { pattern: "^[a-z][a-z0-9_]*$" },
        amount: { pattern: "^-?\\d+(\\.\\d{1,2})?$" },
      },
    };
    expect(misfits(schema, { email: "a@b.ch", day: "2026-01-02", name: "a_1", amount: "-1.50" })).toEqual([]);
    expect(misfits(schema, { email: "a", day: "x", name: "1", amount: "1.234" })).toHaveLength(4);
  });
});

describe("an upper bound of a pattern's steps", () => {
  it.each<[string, number, number]>([
    ["^abc$", 1000, 1],
    ["^\\d{4}$", 1000, 1],
    ["^a?b?$", 1000, 4],
    ["^[*+]x$", 1000, 1],
    ["^\\*$", 1000, 1],
    ["^a*$", 1000, 1000],
    ["a*", 1000, 1_000_000],
    ["^a*b*$", 1000, 1_000_000],
    ["^a{2,5}$", 1000, 4],
    ["^(a+)?$", 10, 20],
    ["^(a+)+$", 10, Number.POSITIVE_INFINITY],
    ["^(?:a|b){2}$", 10, Number.POSITIVE_INFINITY],
    ["(a)\\1", 10, Number.POSITIVE_INFINITY],
  ])("%s on %d characters: %d", (pattern, length, steps) => {
    expect(matchSteps(pattern, length)).toBe(steps);
  });

  it("never throws", () => {
    fc.assert(fc.property(fc.string(), (pattern) => matchSteps(pattern, 10) > 0));
  });
});
