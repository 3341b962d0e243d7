import { expect, it } from "vitest";
import { DEFAULT_SETTINGS, LIMITS } from "../../src/protocol/limits.ts";
import type { OutcomeState } from "../../src/protocol/states.ts";
import { openQueue } from "../support/queue-storage.ts";

// A cancel that comes after the relay's last look and before its result must not be lost: what the agent was
// told and how the run ends agree, wherever in the run the cancel falls.

const CONTROL = LIMITS.controlSeconds * 1000;
const AGENT = { agent_id: "agt_1" };
const DEVICE = { device_id: "dev_1" };

/** Numbers from 0 to 1 that are the same for the same seed (mulberry32). */
function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}

const clock = { time: 1_000_000, now: () => clock.time };
const { queue } = openQueue(clock);
queue.applyAccess({
  project_id: "prj_1",
  version: 1,
  agents: [{ ...AGENT, name: "Claude" }],
  devices: [DEVICE],
  settings: DEFAULT_SETTINGS,
});

/** One run of a few looks, with a cancel at some moment of it; returns what was told and what came of it. */
function race(seed: number) {
  const random = seeded(seed);
  const command_id = `cmd_${seed}`;
  const own = { ...AGENT, command_id };
  const mine = { ...DEVICE, command_id, attempt_id: "att_1" };
  const asked = { graph_session_id: "gs_1", slug: "report", arguments_json: "{}" };
  queue.enqueue({ ...own, ...DEVICE, ...asked, idempotency_key: `key for ${seed}` });

  const started = clock.time + Math.floor(random() * 5_000);
  const ended = started + 1 + Math.floor(random() * 4 * CONTROL);
  const cancelled = clock.time + Math.floor(random() * (ended - clock.time + 2_000));
  const told: (string | undefined)[] = [];
  const steps: [at: number, step: () => void][] = [[cancelled, () => told.push(queue.cancel(own)?.cancel)]];
  let runs = false;
  let stopped = false;
  steps.push([
    started,
    () => {
      const answer = queue.start(mine);
      runs = answer.ok && answer.value.go;
    },
  ]);
  const outcome: OutcomeState = random() < 0.5 ? "completed" : "failed";
  const complete = (status: OutcomeState) => {
    if (runs) queue.complete({ ...mine, completion: { execution_id: "exe_1", status } });
    runs = false;
  };
  for (let at = started + CONTROL; at < ended; at += CONTROL)
    steps.push([
      at,
      () => {
        if (!runs) return;
        const answer = queue.control(mine);
        stopped = answer.ok && answer.value.alive && answer.value.cancel_requested;
        if (stopped) complete("cancelled");
      },
    ]);
  steps.push([ended, () => complete(outcome)]);
  for (const [at, step] of steps.sort((a, b) => a[0] - b[0])) {
    clock.time = at;
    step();
  }
  const run = queue.getRun(own);
  return { told: told[0], run, outcome, stopped };
}

it("ends as the agent was told, wherever the cancel falls", () => {
  const told = new Map<string | undefined, number>();
  for (let seed = 1; seed <= 1000; seed++) {
    const { told: answer, run, outcome, stopped } = race(seed);
    told.set(answer, (told.get(answer) ?? 0) + 1);
    const where = `seed ${seed}`;
    if (answer === "already_finished") expect(run?.status, where).toBe(outcome);
    else expect(run?.status, where).toBe("cancelled");
    expect(run?.cancel_requested, where).toBe(answer !== "already_finished");
    expect(run?.finished_before_stop, where).toBe(answer === "cancelling" && !stopped);
  }
  expect([...told.keys()].sort()).toEqual(["already_finished", "cancelled", "cancelling"]);
  for (const count of told.values()) expect(count).toBeGreaterThan(50);
});
