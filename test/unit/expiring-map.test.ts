import { describe, expect, test } from "vitest";
import { ExpiringMap } from "../../src/worker/relay-api/expiring-map.ts";

describe("a map whose entries end at their time", () => {
  test("gives a value until its time and not at it", () => {
    const map = new ExpiringMap<string>(2);
    map.set("a", "one", 1_000);
    expect(map.get("a", 999)).toBe("one");
    expect(map.get("a", 1_000)).toBeUndefined();
    expect(map.get("a", 0)).toBeUndefined();
  });

  test("lets the oldest go when it is full, and counts a value that is set again as new", () => {
    const map = new ExpiringMap<string>(2);
    map.set("a", "one", 10);
    map.set("b", "two", 10);
    map.set("a", "three", 10);
    map.set("c", "four", 10);
    expect(["a", "b", "c"].map((key) => map.get(key, 0))).toEqual(["three", undefined, "four"]);
  });
});
