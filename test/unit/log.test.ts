import { DrizzleQueryError } from "drizzle-orm/errors";
import { afterEach, describe, expect, it, vi } from "vitest";
import { logFailure } from "../../src/worker/log.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

/** What is logged of an error, its causes included. */
function logged(error: unknown): string {
  const spy = vi.spyOn(console, "error").mockImplementation(() => {});
  logFailure("a call failed:", error);
  const [what, shown] = spy.mock.calls[0] ?? [];
  const texts = [String(what)];
  for (let e = shown; e instanceof Error; e = e.cause) texts.push(`${e.message}\n${e.stack}`);
  return texts.join("\n");
}

describe("the log of a failure", () => {
  it("has a failed statement and its reason, and none of its values", () => {
    const text = logged(
      new DrizzleQueryError("insert into t values (?)", ["s3cret"], new Error("the disk is full")),
    );
    for (const said of ["a call failed:", "insert into t values (?)", "the disk is full"])
      expect(text).toContain(said);
    expect(text).not.toContain("s3cret");
  });

  it("has any other error as it is", () => {
    expect(logged(new TypeError("x is undefined"))).toContain("x is undefined");
  });
});
