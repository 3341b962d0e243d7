import { expect, test } from "vitest";
import type { EngineEvent } from "../../relay-cli/engine/contract.ts";
import { createRunProgress } from "../../relay-cli/engine/run-progress.ts";

/** A clock that a test moves. */
function setUp() {
  let now = 0;
  let timers: { at: number; fn: () => void }[] = [];
  const told: unknown[] = [];
  const progress = createRunProgress(
    {
      now: () => now,
      elapsed: () => now,
      after(ms, fn) {
        const timer = { at: now + ms, fn };
        timers.push(timer);
        return () => {
          timers = timers.filter((t) => t !== timer);
        };
      },
    },
    (event: EngineEvent) => {
      if (event.type === "progress") told.push(event.progress);
    },
  );
  const move = (ms: number): void => {
    now += ms;
    const due = timers.filter((t) => t.at <= now);
    timers = timers.filter((t) => t.at > now);
    for (const { fn } of due) fn();
  };
  return { progress, told, move, timers: () => timers.length };
}

test("the first word is passed on at once, then ten a second at most, and always the last", () => {
  const { progress, told, move } = setUp();
  for (let i = 0; i < 1_000; i++) {
    progress.graph({ percent: i / 10 });
    if (i % 100 === 99) move(50);
  }
  progress.end();
  expect(told.length).toBeLessThanOrEqual(8);
  expect(told[0]).toEqual({ state: "running", percent: 0 });
  expect(told.at(-1)).toEqual({ state: "running", percent: 99.9 });
});

test("while the owner is asked, the Graph's word does not hide it; it comes back with the answer", () => {
  const { progress, told, move } = setUp();
  progress.graph({ message: "Reading" });
  progress.waiting("shell: in /x: make");
  move(1_000);
  progress.graph({ message: "Reading on", percent: 50 });
  move(1_000);
  expect(told.at(-1)).toEqual({ state: "awaiting_approval", message: "shell: in /x: make" });
  progress.waiting(undefined);
  expect(told.at(-1)).toEqual({ state: "running", message: "Reading on", percent: 50 });
});

test("what it says is bounded, and nothing is left waiting at the end", () => {
  const { progress, told, timers } = setUp();
  progress.graph({ message: `a\n\u001b${"🏔".repeat(600)}`, percent: 400 });
  progress.graph({ message: "b" });
  progress.end();
  expect(timers()).toBe(0);
  const { message, percent } = told[0] as { message: string; percent: number };
  expect(message).toMatch(/^a {2}🏔+$/u);
  expect(message.length).toBeLessThanOrEqual(500);
  expect(message.isWellFormed()).toBe(true);
  expect(percent).toBe(100);
});
