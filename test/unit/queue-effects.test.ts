import { beforeEach, describe, expect, it } from "vitest";
import type { ProjectAccess } from "../../src/durable/contract.ts";
import { keptOut } from "../../src/durable/schema.ts";
import { DEFAULT_SETTINGS } from "../../src/protocol/limits.ts";
import type { OutcomeState } from "../../src/protocol/states.ts";
import { openQueue } from "../support/queue-storage.ts";

// What the queue tells its host: whom to wake and when time is next due. A socket, the waiting calls and the
// alarm hang on it. Nothing is told of a call that changed nothing.

const START = 1_000_000_000;
const LEASE = DEFAULT_SETTINGS.lease_seconds * 1000;
const EXPIRY = DEFAULT_SETTINGS.queue_expiry_seconds * 1000;
const RETENTION = DEFAULT_SETTINGS.retention_seconds * 1000;
const OWN = { agent_id: "agt_1", command_id: "cmd_1" };
const MINE = { device_id: "dev_1", command_id: "cmd_1", attempt_id: "att_1" };
const ASKED = {
  ...OWN,
  device_id: MINE.device_id,
  graph_session_id: "gs_1",
  slug: "report",
  arguments_json: "{}",
  idempotency_key: "key-0001",
};

let told: string[] = [];
let clock = { time: START, now: () => START };
let opened = newQueue();

function newQueue() {
  const own = { time: START, now: () => own.time };
  clock = own;
  return openQueue(own, {
    changed: (id) => told.push(`changed ${id}`),
    wake: (id) => told.push(`wake ${id}`),
    due: (at) => told.push(`due in ${at - own.time}`),
  });
}
const access = (version: number, change: Partial<ProjectAccess> = {}) =>
  opened.queue.applyAccess({
    project_id: "prj_1",
    version,
    agents: [{ agent_id: OWN.agent_id, name: "Claude" }],
    devices: [{ device_id: MINE.device_id }],
    settings: DEFAULT_SETTINGS,
    ...change,
  });
const complete = (status: OutcomeState, attempt_id = MINE.attempt_id) =>
  opened.queue.complete({ ...MINE, attempt_id, completion: { execution_id: "exe_1", status } });

/** What is told by one step, once what came before it is forgotten. */
function tells(step: () => unknown): string[] {
  told = [];
  step();
  return told;
}

beforeEach(() => {
  opened = newQueue();
  access(1);
});

describe("a host is told", () => {
  it("to wake the device for a new command, and when that expires; once", () => {
    expect(tells(() => opened.queue.enqueue(ASKED))).toEqual([`due in ${EXPIRY}`, "wake dev_1"]);
    expect(tells(() => opened.queue.enqueue({ ...ASKED, command_id: "cmd_2" }))).toEqual([]);
    expect(tells(() => opened.queue.enqueue({ ...ASKED, arguments_json: "[]" }))).toEqual([]);
  });

  it("to wake the device that is to stop a run; once", () => {
    opened.queue.enqueue(ASKED);
    opened.queue.start(MINE);
    expect(tells(() => opened.queue.cancel(OWN))).toEqual(["wake dev_1"]);
    expect(tells(() => opened.queue.cancel(OWN))).toEqual([]);
  });

  it("that a queued run changed when it is cancelled; once", () => {
    opened.queue.enqueue(ASKED);
    expect(tells(() => opened.queue.cancel(OWN))).toEqual([`due in ${RETENTION}`, "changed cmd_1"]);
    expect(tells(() => opened.queue.cancel(OWN))).toEqual([]);
  });

  it("when a lease ends, of a start, of each sign, and of a run that is back", () => {
    opened.queue.enqueue(ASKED);
    for (let i = 0; i < 2; i++) expect(tells(() => opened.queue.start(MINE))).toEqual([`due in ${LEASE}`]);
    expect(tells(() => opened.queue.control(MINE))).toEqual([`due in ${LEASE}`]);
    clock.time += LEASE;
    expect(tells(() => opened.queue.onAlarm())).toEqual(["changed cmd_1"]);
    expect(tells(() => opened.queue.control(MINE))).toEqual([`due in ${LEASE}`]);
    expect(tells(() => opened.queue.control({ ...MINE, attempt_id: "att_2" }))).toEqual([]);
  });

  it("that a run changed when it waits for its owner, and not when it merely goes on", () => {
    opened.queue.enqueue(ASKED);
    opened.queue.start(MINE);
    const sign = (state: "running" | "awaiting_approval") =>
      tells(() => opened.queue.control({ ...MINE, progress: { state } }));
    expect(sign("running")).toEqual([`due in ${LEASE}`]);
    expect(sign("awaiting_approval")).toEqual([`due in ${LEASE}`, "changed cmd_1"]);
  });

  it("that a run changed when it ends; not of what is kept out, or comes again", () => {
    opened.queue.enqueue(ASKED);
    opened.queue.start(MINE);
    expect(tells(() => complete("failed", "att_2"))).toEqual([]);
    expect(tells(() => complete("completed"))).toEqual([`due in ${RETENTION}`, "changed cmd_1"]);
    expect(tells(() => complete("completed"))).toEqual([]);
    expect(tells(() => complete("failed"))).toEqual([]);
  });

  it("of what time did by whatever call comes first", () => {
    opened.queue.enqueue(ASKED);
    clock.time += EXPIRY;
    expect(tells(() => opened.queue.presence(OWN))).toEqual(["changed cmd_1"]);
    expect(tells(() => opened.queue.presence(OWN))).toEqual([]);
  });

  it("of the runs of an agent that was removed, whether queued, running or being stopped", () => {
    opened.queue.enqueue(ASKED);
    opened.queue.start(MINE);
    opened.queue.cancel(OWN);
    opened.queue.enqueue({ ...ASKED, command_id: "cmd_2", idempotency_key: "key-0002" });
    expect(tells(() => access(2, { agents: [] })).sort()).toEqual(
      ["changed cmd_1", "changed cmd_2", `due in ${RETENTION}`, "wake dev_1"].sort(),
    );
    expect(tells(() => access(2, { agents: [] }))).toEqual([]);
  });

  it("nothing by passes, looks and calls that find nothing", () => {
    opened.queue.enqueue(ASKED);
    const strange = { device_id: "dev_2", agent_id: "agt_2", command_id: "cmd_9", attempt_id: "att_1" };
    const { queue } = opened;
    for (const step of [
      () => queue.sync({ ...MINE, sessions_digest: "", token_issued_at: 1 }),
      () => queue.getRun(OWN),
      () => queue.presence(OWN),
      () => queue.start(strange),
      () => queue.control(strange),
      () => queue.cancel(strange),
      () => queue.enqueue({ ...ASKED, ...strange }),
    ])
      expect(tells(step)).toEqual([]);
  });
});

it("notes the last completion that was kept out, and how many there were", () => {
  const notes = () => opened.db.select().from(keptOut).all();
  opened.queue.enqueue(ASKED);
  opened.queue.start(MINE);
  clock.time += 1;
  complete("failed", "att_2");
  const note = { seq: 1, execution_id: "exe_1" };
  expect(notes()).toEqual([{ ...note, times: 1, last_at: START + 1, attempt_id: "att_2", status: "failed" }]);
  complete("completed");
  clock.time += 1;
  complete("completed");
  expect(notes()).toHaveLength(1);
  const { attempt_id: _, ...unattempted } = MINE;
  opened.queue.complete({ ...unattempted, completion: { execution_id: "exe_2", status: "cancelled" } });
  expect(notes()).toEqual([
    { seq: 1, times: 2, last_at: START + 2, attempt_id: null, execution_id: "exe_2", status: "cancelled" },
  ]);
});
