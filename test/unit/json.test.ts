import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { canonicalJson, findJsonFault, type Json } from "../../src/protocol/json.ts";

describe("what parsing would change is found before it is parsed", () => {
  it.each([
    ["a number past the range of a double", '{"a":1e400}', 5, "outside the range"],
    ["a negative one", "[-1e999]", 1, "outside the range"],
    ["one that would vanish", "[1e-400]", 1, "outside the range"],
    ["a negative one that would vanish", `[-0.${"0".repeat(400)}1]`, 1, "outside the range"],
    ["a whole number past 2^53", '{"id":12345678901234567890}', 6, "lose digits"],
    ["nesting over the limit", "[".repeat(201), 200, "deeper than 200"],
  ])("%s", (_, text, at, says) => {
    const fault = findJsonFault(text);
    expect(fault?.at).toBe(at);
    expect(fault?.text).toContain(says);
  });

  it.each([
    ["numbers inside strings", '{"a":"1e400 [[[ 12345678901234567890"}'],
    ["zeros, however they are written", "[0,-0,0.0,0e5,0e-999,5e-324]"],
    ["escaped quotes", '{"a":"\\"1e400","b":"\\\\"}'],
    ["2^53 - 1, decimals and exponents", '[9007199254740991,0.1,-2.5e-3,1e308,""]'],
    ["nesting at the limit", `${"[".repeat(200)}${"]".repeat(200)}`],
  ])("%s are left alone", (_, text) => {
    expect(findJsonFault(text)).toBeUndefined();
  });

  it("looks through a million levels and five million characters without recursion", () => {
    expect(findJsonFault("[".repeat(1_000_000), 2_000_000)).toBeUndefined();
    expect(findJsonFault(`"${"x".repeat(5_000_000)}"`)).toBeUndefined();
  });

  it("finds nothing in what JSON.stringify writes", () => {
    expect(findJsonFault(JSON.stringify([2 ** 60, 1e20, -0, Number.MAX_VALUE]))).toBeUndefined();
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 6 }), (value) => {
        expect(findJsonFault(JSON.stringify(value))).toBeUndefined();
      }),
    );
  });
});

describe("canonical JSON", () => {
  const canon = (text: string) => canonicalJson(JSON.parse(text) as Json);

  it.each([
    ["the order of keys", '{"a":1,"b":{"d":1,"c":2}}', '{"b":{"c":2,"d":1},"a":1}'],
    ["1 and 1.0", '{"a":1}', '{"a":1.0}'],
    ["white space", '{"a":[1,2]}', ' { "a" : [ 1 , 2 ] } '],
    ["escapes", '{"a":"é"}', '{"a":"\\u00e9"}'],
  ])("is equal whatever %s", (_, left, right) => expect(canon(left)).toBe(canon(right)));

  it.each([
    ["a missing key and null", "{}", '{"a":null}'],
    ["a number and its text", '{"a":1}', '{"a":"1"}'],
    ["arrays in another order", '{"a":[1,2]}', '{"a":[2,1]}'],
    ["an own __proto__ key", '{"__proto__":{"a":1}}', "{}"],
  ])("tells %s apart", (_, left, right) => expect(canon(left)).not.toBe(canon(right)));

  it("keeps NUL, lone surrogates and __proto__ as they were", () => {
    const text = '{"__proto__":{"x":1},"lone":"\\ud83d","nul":"\\u0000"}';
    expect(canon(text)).toBe(text);
  });

  it("reads back as the value it was made from", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(JSON.parse(canonicalJson(value as Json))).toEqual(JSON.parse(JSON.stringify(value)));
      }),
    );
  });
});
