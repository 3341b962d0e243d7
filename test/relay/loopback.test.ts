import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { endpointOrigin } from "../../relay-cli/commands/login.ts";
import { type Loopback, openLoopback } from "../../relay-cli/commands/loopback.ts";

let loopback: Loopback;
beforeEach(async () => {
  loopback = await openLoopback("/callback");
});
afterEach(() => loopback.close());

const status = async (query: string, path = "/callback") => {
  const url = new URL(loopback.redirectUrl);
  return (await fetch(`${url.origin}${path}?${query}`)).status;
};

describe("the answer of a sign-in", () => {
  test("is taken on the loopback interface alone, on a port of its own", () => {
    expect(loopback.redirectUrl).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/callback$/);
  });

  test("is taken once, with the right state", async () => {
    const answer = loopback.answer("right");
    expect(await status("code=c&state=right")).toBe(200);
    expect((await answer).get("code")).toBe("c");
    expect(await status("code=other&state=right")).toBe(400);
  });

  test.each(["code=c", "code=c&state=", "code=c&state=wrong", "code=c&state=right%00"])(
    "of another flow (%s) is turned away, and the right one still taken",
    async (query) => {
      const answer = loopback.answer("right");
      expect(await status(query)).toBe(400);
      expect(await status("code=c&state=right")).toBe(200);
      expect((await answer).get("code")).toBe("c");
    },
  );

  test("before any was asked for is turned away", async () => {
    expect(await status("code=c&state=")).toBe(400);
    expect(await status("code=c&state=undefined")).toBe(400);
  });

  test("that never comes holds up nothing once the sign-in is given up", () => {
    const timers = () => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;
    const before = timers();
    void loopback.answer("right");
    expect(timers()).toBe(before + 1);
    loopback.close();
    expect(timers()).toBe(before);
  });

  test("elsewhere is not there", async () => {
    void loopback.answer("right");
    expect(await status("code=c&state=right", "/")).toBe(404);
    expect((await fetch(loopback.redirectUrl, { method: "POST" })).status).toBe(404);
    await status("code=c&state=right");
  });

  test("a refusal is an answer too", async () => {
    const answer = loopback.answer("right");
    expect(await status("error=access_denied&state=right")).toBe(200);
    expect((await answer).get("error")).toBe("access_denied");
  });
});

describe("an endpoint's address", () => {
  test.each([
    ["https://relay.example", "https://relay.example"],
    ["https://relay.example/mcp", "https://relay.example"],
    ["relay.example", "https://relay.example"],
    ["http://localhost:8787/", "http://localhost:8787"],
    ["http://127.0.0.1:1", "http://127.0.0.1:1"],
    ["http://[::1]:1", "http://[::1]:1"],
  ])("%s is %s", (typed, origin) => {
    expect(endpointOrigin(typed)).toBe(origin);
  });

  test.each([
    "http://relay.example",
    "http://localhost.evil.example",
    "ftp://relay.example",
    "javascript://x",
    "https://",
    "https://user:secret@relay.example",
  ])("%s is refused", (typed) => {
    expect(() => endpointOrigin(typed)).toThrow("must be one such as");
  });
});
