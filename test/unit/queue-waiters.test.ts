import { afterEach, expect, it } from "vitest";
import { Waiters } from "../../src/durable/waiters.ts";
import { LIMITS } from "../../src/protocol/limits.ts";

/** Timers that go off when they are told to. */
const timers = new Map<number, { run: () => void; milliseconds: number }>();
let last = 0;
const newWaiters = () =>
  new Waiters((run, milliseconds) => {
    const id = ++last;
    timers.set(id, { run, milliseconds });
    return () => timers.delete(id);
  });

afterEach(() => {
  expect(timers.size, "timers left").toBe(0);
});

/** Whether a promise is settled once all that is ready has run. */
async function settled(promise: Promise<void>): Promise<boolean> {
  let done = false;
  void promise.then(() => {
    done = true;
  });
  await Promise.resolve();
  await Promise.resolve();
  return done;
}

it("lets everyone who waits for a run go when it is woken, and clears their timers", async () => {
  const waiters = newWaiters();
  const waiting = [waiters.wait("a", "c1", 1), waiters.wait("b", "c1", 2)];
  const other = waiters.wait("a", "c2", 3);
  waiters.wake("c1");
  await Promise.all(waiting);
  expect(await settled(other)).toBe(false);
  expect([waiters.count(), waiters.count("a"), waiters.count("b")]).toEqual([1, 1, 0]);
  waiters.wake("c2");
  await other;
  expect(waiters.count()).toBe(0);
});

it("lets one go when its time is up, and no other", async () => {
  const waiters = newWaiters();
  const [short, long] = [waiters.wait("a", "c1", 10), waiters.wait("a", "c1", 20)];
  const timer = [...timers.values()].find((t) => t.milliseconds === 10);
  timer?.run();
  await short;
  expect(await settled(long)).toBe(false);
  waiters.wakeAll();
  await long;
});

it("is not moved by a run nobody waits for, or by being woken twice", async () => {
  const waiters = newWaiters();
  waiters.wake("c1");
  const waiting = waiters.wait("a", "c1", 1);
  waiters.wake("c1");
  waiters.wake("c1");
  await waiting;
});

it("turns away at once what is over an agent's share, or the project's", async () => {
  const waiters = newWaiters();
  for (let i = 0; i < LIMITS.waitersPerAgent; i++) void waiters.wait("a", `c${i}`, 1);
  expect(await settled(waiters.wait("a", "c", 1))).toBe(true);
  for (let i = waiters.count(); i < LIMITS.waitersPerProject; i++) void waiters.wait(`agent ${i}`, "c", 1);
  expect(await settled(waiters.wait("b", "c", 1))).toBe(true);
  waiters.wake("c0");
  const again = waiters.wait("b", "c", 1);
  expect(await settled(again)).toBe(false);
  waiters.wakeAll();
  await again;
  expect(waiters.count()).toBe(0);
});
