import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createBackoff } from "../../relay-cli/relay/backoff.ts";
import { failureOf, networkFailure, printable } from "../../relay-cli/relay/failure.ts";
import { isOlder } from "../../relay-cli/relay/version.ts";
import { RELAY_ERRORS } from "../../src/protocol/errors.ts";

const answer = (status: number, body: unknown, headers: Record<string, string> = {}) =>
  failureOf(status, new Headers(headers), typeof body === "string" ? body : JSON.stringify(body));

describe("what an error means", () => {
  test.each(Object.entries(RELAY_ERRORS))(
    "%s is of the kind the protocol's table says, in its words",
    (code, row) => {
      expect(answer(row.status, { error: code, error_description: "other words" })).toMatchObject({
        kind: row.kind,
        code,
        text: row.text,
      });
    },
  );

  test.each([
    [400, "permanent"],
    [404, "permanent"],
    [418, "permanent"],
    [401, "renew"],
    [408, "retry"],
    [425, "retry"],
    [429, "retry"],
    [500, "retry"],
    [599, "retry"],
  ])("an error of ours that is newer than this relay: %d is %s", (status, kind) => {
    expect(answer(status, { error: "brand_new", error_description: "Something new" })).toMatchObject({
      kind,
      code: "unknown",
      text: expect.stringContaining("Something new") as string,
    });
  });

  test.each(["__proto__", "constructor", "toString"])("an error named %s is an unknown one", (error) => {
    expect(answer(400, { error, error_description: "" }).code).toBe("unknown");
  });

  test.each([400, 401, 403, 404, 410, 500, 502, 511])(
    "a page of another service with %d is tried again",
    (status) => {
      for (const body of ["<html>", "", "null", "[]", '{"error":1}'])
        expect(answer(status, body)).toMatchObject({ kind: "retry", code: "foreign" });
    },
  );

  test("413 is too large, whoever says so", () => {
    expect(answer(413, "<html>")).toMatchObject({ kind: "permanent", code: "body_too_large" });
  });

  test.each([
    ["30", undefined, 30_000],
    ["0", undefined, 0],
    ["999999999", undefined, 3_600_000],
    ["Fri, 20 Nov 2026 00:01:00 GMT", "Fri, 20 Nov 2026 00:00:00 GMT", 60_000],
    ["Fri, 20 Nov 2026 00:00:00 GMT", "Fri, 20 Nov 2026 00:01:00 GMT", 0],
    ["Fri, 20 Nov 2026 00:01:00 GMT", undefined, undefined],
    ["soon", undefined, undefined],
    ["-5", undefined, undefined],
    ["1e9", undefined, undefined],
  ])("Retry-After %j, sent at %j, is %d ms", (value, date, ms) => {
    const headers = { "retry-after": value, ...(date === undefined ? {} : { date }) };
    expect(answer(503, "", headers).retryAfterMs).toBe(ms);
  });

  test("a network error names its innermost cause, and what to do about a private authority", () => {
    const inner = Object.assign(new Error("self-signed certificate in certificate chain"), {
      code: "SELF_SIGNED_CERT_IN_CHAIN",
    });
    const { text } = networkFailure(new TypeError("fetch failed", { cause: inner }));
    expect(text).toContain("self-signed certificate");
    expect(text).toContain("NODE_EXTRA_CA_CERTS");
    expect(text).not.toContain("fetch failed");
  });

  test("texts of others hold nothing that steers a terminal", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (text) => {
        const shown = printable(text);
        expect(shown.isWellFormed()).toBe(true);
        expect(shown.length).toBeLessThanOrEqual(300);
        expect(
          [...shown].every((c) => c >= " " && !/[\u007f-\u009f\u202a-\u202e\u2066-\u2069]/.test(c)),
        ).toBe(true);
      }),
    );
  });
});

describe("the pauses after failures", () => {
  const steady = (byte: number) => ({ bytes: (length: number) => new Uint8Array(length).fill(byte) });

  test("lie anywhere under a ceiling that doubles up to a minute", () => {
    const longest = createBackoff(steady(255));
    const pauses = Array.from({ length: 10 }, () => Math.round(longest.failed(0)));
    expect(pauses).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000, 60_000]);
    const shortest = createBackoff(steady(0));
    expect(shortest.failed(0)).toBe(0);
  });

  test("start small again only after a minute without any failure", () => {
    const backoff = createBackoff(steady(255));
    for (let n = 0; n < 6; n++) backoff.failed(0);
    backoff.succeeded(1_000);
    expect(Math.round(backoff.failed(60_000))).toBe(60_000);
    backoff.succeeded(61_000);
    backoff.succeeded(80_000);
    expect(Math.round(backoff.failed(121_000))).toBe(1_000);
  });

  test("are never shorter than the server asks, and spread over a tenth of that", () => {
    expect(createBackoff(steady(0)).failed(0, 600_000)).toBe(600_000);
    expect(Math.round(createBackoff(steady(255)).failed(0, 600_000))).toBe(660_000);
  });

  test("bring 2,000 relays back spread out after an outage that hit them all at once", () => {
    let seed = 7;
    const random = {
      bytes: (length: number) =>
        Uint8Array.from({ length }, () => {
          seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
          return seed >>> 24;
        }),
    };
    const outage = 180_000;
    const buckets = new Map<number, number>();
    for (let relay = 0; relay < 2_000; relay++) {
      const backoff = createBackoff(random);
      let at = 0;
      while (at < outage) at += backoff.failed(at);
      const second = Math.floor((at - outage) / 1_000);
      buckets.set(second, (buckets.get(second) ?? 0) + 1);
    }
    const counts = [...buckets.values()];
    expect(Math.max(...counts) / (2_000 / 60)).toBeLessThan(3);
  });
});

describe("versions", () => {
  test.each([
    ["0.1.0", "0.1.0", false],
    ["0.1.0", "0.2.0", true],
    ["0.10.0", "0.9.0", false],
    ["1.0.0", "0.9.9", false],
    ["1.0.0-beta", "1.0.0", true],
    ["1.0.0", "1.0.0-beta", false],
    ["1.0.0+build", "1.0.0", false],
  ])("%s is older than %s: %s", (version, than, older) => {
    expect(isOlder(version, than)).toBe(older);
  });
});
