import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { boundCompletion, type Completion, cutText } from "../../src/protocol/completion.ts";
import { LIMITS } from "../../src/protocol/limits.ts";

const base: Completion = {
  execution_id: "00000000-0000-4000-8000-000000000000",
  status: "completed",
  result: "",
  total_tokens: 0,
  reported_cost: 0,
};
const room = LIMITS.completionCharacters - JSON.stringify(base).length;

/** A result of exactly `units` UTF-16 units, of one kind of character. */
const fill = (character: string, units: number) =>
  character.repeat(Math.floor(units / character.length)) + "x".repeat(units % character.length);

describe.each([
  ["ASCII", "a"],
  ["Korean", "한"],
  ["emoji", "😀"],
])("a completion in %s", (_, character) => {
  it("of exactly 100,000 characters is sent whole", () => {
    const full = { ...base, result: fill(character, room) };
    expect(JSON.stringify(full)).toHaveLength(100_000);
    expect(boundCompletion(full)).toEqual(full);
  });

  it("of 100,001 characters goes without its result, all or nothing", () => {
    const full = { ...base, result: fill(character, room + 1) };
    expect(JSON.stringify(full)).toHaveLength(100_001);
    expect(boundCompletion(full)).toEqual({
      execution_id: base.execution_id,
      status: "completed",
      result_truncated: true,
    });
  });
});

describe("an error's text", () => {
  it.each([
    [1_998, 2_000],
    [1_999, 1_999],
    [2_000, 2_000],
  ])("with an emoji at character %i is cut to %i, never inside the pair", (at, length) => {
    const cut = cutText(`${"e".repeat(at)}😀 and more`, LIMITS.errorCharacters);
    expect(cut).toHaveLength(length);
    expect(cut.isWellFormed()).toBe(true);
  });

  it("is a prefix of what it was, within the limit, and well-formed if it was", () => {
    fc.assert(
      fc.property(
        fc.string({ unit: "binary", maxLength: 60 }),
        fc.integer({ min: 1, max: 40 }),
        (text, max) => {
          const cut = cutText(text, max);
          expect(text.startsWith(cut)).toBe(true);
          expect(cut.length).toBeLessThanOrEqual(max);
          expect(cut.length).toBeGreaterThanOrEqual(Math.min(text.length, max - 1));
          expect(cut.isWellFormed()).toBe(true);
        },
      ),
    );
  });

  it("stays with a result that was too large", () => {
    const sent = boundCompletion({ ...base, status: "failed", error: "boom", result: "x".repeat(100_000) });
    expect(sent).toEqual({
      execution_id: base.execution_id,
      status: "failed",
      result_truncated: true,
      error: "boom",
    });
  });
});
