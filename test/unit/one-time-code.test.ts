import { describe, expect, it } from "vitest";
import { newOneTimeCode, oneTimeCodeHash } from "../../src/protocol/one-time-code.ts";
import { systemRandom } from "../../src/protocol/ports.ts";

describe("a one-time code", () => {
  it("is 26 characters of five random bits each: at 30 tries a minute nobody guesses one of 2^130", () => {
    const codes = Array.from({ length: 2_000 }, () => newOneTimeCode(systemRandom));
    expect(new Set(codes).size).toBe(codes.length);
    const counts = new Map<string, number>();
    for (const code of codes) {
      const characters = code.replaceAll("-", "");
      expect(characters).toMatch(/^[0-9A-HJKMNP-TV-Z]{26}$/);
      for (const character of characters) counts.set(character, (counts.get(character) ?? 0) + 1);
    }
    // 52,000 characters of 32 kinds: 1,625 of each, give or take. Five deviations are 200.
    expect(counts.size).toBe(32);
    for (const count of counts.values()) expect(Math.abs(count - 1_625)).toBeLessThan(250);
  });

  it("takes every bit it uses from the source", () => {
    const codeOf = (byte: number) => newOneTimeCode({ bytes: (n) => new Uint8Array(n).fill(byte) });
    expect(codeOf(0)).toBe("00000-00000-00000-00000-00000-0");
    expect(codeOf(31)).toBe("ZZZZZ-ZZZZZ-ZZZZZ-ZZZZZ-ZZZZZ-Z");
  });

  it("is found however a person types it, and only as its hash", async () => {
    const code = "0123A-BCDEF-GHJKM-NPQRS-TVWXY-Z";
    const hash = await oneTimeCodeHash(code);
    for (const typed of [
      code.toLowerCase(),
      ` ${code} `,
      code.replaceAll("-", ""),
      "Ol23A-BCDEF-GHJKM-NPQRS-TVWXY-Z",
    ])
      expect(await oneTimeCodeHash(typed)).toBe(hash);
    expect(await oneTimeCodeHash("1123A-BCDEF-GHJKM-NPQRS-TVWXY-Z")).not.toBe(hash);
    expect(hash).toMatch(/^[0-9a-f]{64}$/);
  });
});
