import { evictDurableObject } from "cloudflare:test";
import { describe, expect, it } from "vitest";
import type { ProjectQueueApi } from "../../src/durable/contract.ts";
import { newCommandId } from "../../src/protocol/ids.ts";
import type { Json } from "../../src/protocol/json.ts";
import { systemRandom } from "../../src/protocol/ports.ts";
import { newProject, type Project, request, uuid } from "./queue-support.ts";
import { type Call, isLinearizable, model, type Recorded } from "./support/linearizable.ts";

/** Histories recorded, callers at once in each, and calls of each caller. */
const HISTORIES = 60;
const CALLERS = 4;
const CALLS = 5;

/** A seeded stream of whole numbers below a bound: mulberry32. */
function dice(seed: number): (below: number) => number {
  let a = seed;
  return (below) => {
    a = (a + 0x6d2b79f5) | 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % below;
  };
}

const pick = <T>(draw: (below: number) => number, items: readonly T[]): T => items[draw(items.length)] as T;

interface Names {
  ids: readonly string[];
  attempts: readonly string[];
  execution: string;
}

/** What the callers do, one list each. A request for a run has an id of its own, as the Worker gives it one. */
function drawPlans(draw: (below: number) => number, { ids, attempts }: Names): Call[][] {
  const fresh = [...ids];
  const drawCall = (): Call => {
    const id = pick(draw, ids);
    const attempt = pick(draw, attempts);
    const kind = draw(9);
    const own = kind < 2 ? fresh.pop() : undefined;
    if (own !== undefined) {
      const key = pick(draw, ["first key", "second key"]);
      return { do: "run", id: own, key, args: pick(draw, ["{}", "{}", '{"a":1}']) };
    }
    if (kind < 4) return { do: "start", id, attempt };
    if (kind < 5) return { do: "control", id, attempt };
    if (kind < 7)
      return { do: "complete", id, attempt, outcome: pick(draw, ["completed", "failed", "cancelled"]) };
    return { do: kind === 7 ? "cancel" : "get", id };
  };
  return Array.from({ length: CALLERS }, () => Array.from({ length: CALLS }, drawCall));
}

/** The call on the real object, and its answer in the model's words. */
async function perform(p: Project, names: Names, call: Call): Promise<Json> {
  const queue: ProjectQueueApi = p.queue;
  const agent = { agent_id: p.agent_id, command_id: call.id };
  const device = { device_id: p.device_id, command_id: call.id };
  switch (call.do) {
    case "run": {
      const change = { command_id: call.id, idempotency_key: call.key, arguments_json: call.args };
      const answer = await queue.enqueue(request(p, change));
      if (!answer.ok && answer.error !== "key_conflict") throw new Error(answer.error);
      const run = (answer as { run: { command_id: string; status: string } }).run;
      return [answer.ok ? "ticket" : "conflict", run.command_id, run.status];
    }
    case "start": {
      const answer = await queue.start({ ...device, attempt_id: call.attempt });
      if (!answer.ok) return "not found";
      return answer.value.go ? "go" : answer.value.status;
    }
    case "control": {
      const answer = await queue.control({ ...device, attempt_id: call.attempt });
      if (!answer.ok) return "not found";
      return answer.value.alive ? ["alive", answer.value.cancel_requested] : answer.value.status;
    }
    case "complete": {
      const completion = { execution_id: names.execution, status: call.outcome };
      const answer = await queue.complete({ ...device, attempt_id: call.attempt, completion });
      return answer.ok ? [answer.value.record, answer.value.status] : "not found";
    }
    case "cancel": {
      const answer = await queue.cancel(agent);
      if (!answer) return "not found";
      return answer.cancel === "already_finished" ? [answer.cancel, answer.run.status] : answer.cancel;
    }
    case "get": {
      const run = await queue.getRun({ ...agent, wait_ms: 0 });
      return run ? [run.status, run.cancel_requested] : "not found";
    }
  }
}

async function record(seed: number): Promise<Recorded[]> {
  const draw = dice(seed);
  const p = await newProject();
  const names: Names = {
    ids: [1, 2, 3, 4].map(() => newCommandId(p.project_id, systemRandom)),
    attempts: [uuid(), uuid()],
    execution: uuid(),
  };
  let tick = 0;
  const history: Recorded[] = [];
  const caller = async (calls: readonly Call[]) => {
    for (const call of calls) {
      const asked = tick++;
      const answer = await perform(p, names, call);
      history.push({ call, answer, asked, answered: tick++ });
    }
  };
  await Promise.all(drawPlans(draw, names).map(caller));
  // What is stored outlives the object's memory: the same questions again, after it is gone.
  await evictDurableObject(p.stub);
  await caller(names.ids.map((id) => ({ do: "get", id })));
  return history;
}

describe("the object's calls", () => {
  it(`are linearizable: ${HISTORIES} histories of ${CALLERS} callers at once`, {
    timeout: 60_000,
  }, async () => {
    let overlapping = 0;
    for (let seed = 1; seed <= HISTORIES; seed++) {
      const history = await record(seed);
      expect(isLinearizable(history), `seed ${seed}: ${JSON.stringify(history)}`).toBe(true);
      overlapping += history.filter((a) =>
        history.some((b) => b.asked > a.asked && b.asked < a.answered),
      ).length;
    }
    // Histories of calls one after the other would show nothing.
    expect(overlapping).toBeGreaterThan(HISTORIES * CALLERS);
  });
});

describe("the checker", () => {
  const id = "c";
  const run: Call = { do: "run", id, key: "k", args: "{}" };
  const at = (call: Call, answer: Json, asked: number, answered: number): Recorded => ({
    call,
    answer,
    asked,
    answered,
  });

  it("takes an order that real time allows", () => {
    const start: Call = { do: "start", id, attempt: "a" };
    expect(isLinearizable([at(run, ["ticket", id, "queued"], 0, 3), at(start, "go", 1, 2)])).toBe(true);
  });

  it("refuses an answer that no order gives, and an order that real time forbids", () => {
    const get: Call = { do: "get", id };
    const ticket = at(run, ["ticket", id, "queued"], 0, 1);
    expect(isLinearizable([ticket, at(get, ["running", false], 2, 3)])).toBe(false);
    expect(isLinearizable([ticket, at(get, "not found", 2, 3)])).toBe(false);
    expect(isLinearizable([at(run, ["ticket", id, "queued"], 0, 3), at(get, "not found", 1, 2)])).toBe(true);
    const other: Call = { do: "start", id, attempt: "b" };
    const mine: Call = { do: "start", id, attempt: "a" };
    expect(isLinearizable([ticket, at(mine, "go", 2, 5), at(other, "go", 3, 4)])).toBe(false);
  });

  it("knows that a run told to stop ends as cancelled", () => {
    const calls: Call[] = [run, { do: "start", id, attempt: "a" }, { do: "cancel", id }];
    const queue = calls.reduce(
      (before, call) => model(before, call).after,
      new Map() as ReturnType<typeof model>["after"],
    );
    const end: Call = { do: "complete", id, attempt: "a", outcome: "completed" };
    expect(model(queue, end).answer).toEqual(["stored", "cancelled"]);
  });
});
