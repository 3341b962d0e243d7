import { runDurableObjectAlarm } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { RunView } from "../../src/durable/contract.ts";
import type { Completion } from "../../src/protocol/completion.ts";
import { DEFAULT_SETTINGS } from "../../src/protocol/limits.ts";
import { newProject, type Project, request, START, uuid } from "./queue-support.ts";

// The table of design section 3, cell by cell, on the real object. Each cell says what the call answers and
// how the run then stands, in words: its state, then `stop` if it was asked to stop, `late`, `early` if it
// had finished before the stop, and `=name` of the completion it ended with.

const A = uuid();
const B = uuid();
const OUTCOMES = {
  done: { execution_id: uuid(), status: "completed", result: { files: 3 } },
  other: { execution_id: uuid(), status: "completed", result: { files: 4 } },
  broke: { execution_id: uuid(), status: "failed", error: "no such folder" },
  halted: { execution_id: uuid(), status: "cancelled" },
} as const satisfies Record<string, Completion>;

const LEASE = DEFAULT_SETTINGS.lease_seconds * 1000;
const EXPIRY = DEFAULT_SETTINGS.queue_expiry_seconds * 1000;
const RETENTION = DEFAULT_SETTINGS.retention_seconds * 1000;

class Run {
  readonly project: Project;
  readonly command_id: string;

  constructor(project: Project, command_id: string) {
    this.project = project;
    this.command_id = command_id;
  }

  get #device() {
    return { device_id: this.project.device_id, command_id: this.command_id };
  }

  async start(attempt_id: string): Promise<string> {
    const answer = await this.project.queue.start({ ...this.#device, attempt_id });
    if (!answer.ok) return answer.error;
    return answer.value.go ? "go" : `no: ${answer.value.status}`;
  }

  async control(attempt_id: string): Promise<string> {
    const answer = await this.project.queue.control({ ...this.#device, attempt_id });
    if (!answer.ok) return answer.error;
    if (!answer.value.alive) return `dead: ${answer.value.status}`;
    return answer.value.cancel_requested ? "alive, stop" : "alive";
  }

  async complete(name: keyof typeof OUTCOMES, attempt_id?: string): Promise<string> {
    const answer = await this.project.queue.complete({
      ...this.#device,
      ...(attempt_id && { attempt_id }),
      completion: OUTCOMES[name],
    });
    return answer.ok ? `${answer.value.record}: ${answer.value.status}` : answer.error;
  }

  async cancel(): Promise<string> {
    const answer = await this.project.queue.cancel(this.#own);
    return answer ? `${answer.cancel}: ${inWords(answer.run)}` : "gone";
  }

  async stands(): Promise<string> {
    return inWords(await this.project.queue.getRun({ ...this.#own, wait_ms: 0 }));
  }

  async passes(milliseconds: number): Promise<string> {
    vi.setSystemTime(Date.now() + milliseconds);
    return "";
  }

  get #own() {
    return { agent_id: this.project.agent_id, command_id: this.command_id };
  }
}

function inWords(run: RunView | undefined): string {
  if (!run) return "gone";
  const outcome = Object.entries(OUTCOMES).find(([, o]) => JSON.stringify(o) === run.outcome_json)?.[0];
  const words = [
    run.cancel_requested && "stop",
    run.late && "late",
    run.finished_before_stop && "early",
    run.outcome_json && `=${outcome ?? run.outcome_json}`,
  ];
  return [run.status, ...words.filter(Boolean)].join(" ");
}

/** How a run gets into each state, from `queued`. */
const STATES = {
  queued: async () => {},
  running: async (run: Run) => {
    await run.start(A);
  },
  "running stop": async (run: Run) => {
    await run.start(A);
    await run.cancel();
  },
  "completed =done": async (run: Run) => {
    await run.start(A);
    await run.complete("done", A);
  },
  "failed =broke": async (run: Run) => {
    await run.start(A);
    await run.complete("broke", A);
  },
  "cancelled =halted": async (run: Run) => {
    await run.start(A);
    await run.complete("halted", A);
  },
  "cancelled stop": async (run: Run) => {
    await run.cancel();
  },
  "cancelled stop early =done": async (run: Run) => {
    await run.start(A);
    await run.cancel();
    await run.complete("done", A);
  },
  expired: async (run: Run) => {
    await run.passes(EXPIRY);
  },
  lost: async (run: Run) => {
    await run.start(A);
    await run.passes(LEASE);
  },
  "lost stop": async (run: Run) => {
    await run.start(A);
    await run.cancel();
    await run.passes(LEASE);
  },
  "completed late =done": async (run: Run) => {
    await run.start(A);
    await run.passes(LEASE);
    await run.complete("done", A);
  },
};

const EVENTS = {
  "start A": (run: Run) => run.start(A),
  "start B": (run: Run) => run.start(B),
  "control A": (run: Run) => run.control(A),
  "control B": (run: Run) => run.control(B),
  "done A": (run: Run) => run.complete("done", A),
  "other A": (run: Run) => run.complete("other", A),
  "broke A": (run: Run) => run.complete("broke", A),
  "halted A": (run: Run) => run.complete("halted", A),
  "done B": (run: Run) => run.complete("done", B),
  "halted B": (run: Run) => run.complete("halted", B),
  "done without an attempt": (run: Run) => run.complete("done"),
  "halted without an attempt": (run: Run) => run.complete("halted"),
  cancel: (run: Run) => run.cancel(),
  "just before the lease ends": (run: Run) => run.passes(LEASE - 1),
  "the lease's end": (run: Run) => run.passes(LEASE),
  "just before it expires": (run: Run) => run.passes(EXPIRY - 1),
  "its expiry": (run: Run) => run.passes(EXPIRY),
  "the end of its retention": (run: Run) => run.passes(RETENTION),
};

type State = keyof typeof STATES;
type Event = keyof typeof EVENTS;
/** What the call answers, and how the run stands after it, if not as before. */
type Cell = readonly [answer: string, after?: string];

const TIME = {
  "just before the lease ends": [""],
  "the lease's end": [""],
  "just before it expires": [""],
  "its expiry": [""],
  "the end of its retention": ["", "gone"],
} as const satisfies Partial<Record<Event, Cell>>;

/** A run that ended for good: everything is refused and leaves it as it is. */
const over = (state: State): Record<Event, Cell> => {
  const status = state.split(" ")[0];
  const keptOut: Cell = [`kept_out: ${status}`];
  return {
    "start A": [`no: ${status}`],
    "start B": [`no: ${status}`],
    "control A": [`dead: ${status}`],
    "control B": [`dead: ${status}`],
    "done A": keptOut,
    "other A": keptOut,
    "broke A": keptOut,
    "halted A": keptOut,
    "done B": keptOut,
    "halted B": keptOut,
    "done without an attempt": keptOut,
    "halted without an attempt": keptOut,
    cancel: [`already_finished: ${state}`],
    ...TIME,
  };
};

const TABLE: Record<State, Record<Event, Cell>> = {
  queued: {
    "start A": ["go", "running"],
    "start B": ["go", "running"],
    "control A": ["dead: queued"],
    "control B": ["dead: queued"],
    "done A": ["kept_out: queued"],
    "other A": ["kept_out: queued"],
    "broke A": ["kept_out: queued"],
    "halted A": ["stored: cancelled", "cancelled =halted"],
    "done B": ["kept_out: queued"],
    "halted B": ["stored: cancelled", "cancelled =halted"],
    "done without an attempt": ["kept_out: queued"],
    "halted without an attempt": ["stored: cancelled", "cancelled =halted"],
    cancel: ["cancelled: cancelled stop", "cancelled stop"],
    "just before the lease ends": [""],
    "the lease's end": [""],
    "just before it expires": [""],
    "its expiry": ["", "expired"],
    "the end of its retention": ["", "expired"],
  },
  running: {
    "start A": ["go"],
    "start B": ["no: running"],
    "control A": ["alive"],
    "control B": ["dead: running"],
    "done A": ["stored: completed", "completed =done"],
    "other A": ["stored: completed", "completed =other"],
    "broke A": ["stored: failed", "failed =broke"],
    "halted A": ["stored: cancelled", "cancelled =halted"],
    "done B": ["kept_out: running"],
    "halted B": ["kept_out: running"],
    "done without an attempt": ["kept_out: running"],
    "halted without an attempt": ["kept_out: running"],
    cancel: ["cancelling: running stop", "running stop"],
    "just before the lease ends": [""],
    "the lease's end": ["", "lost"],
    "just before it expires": ["", "lost"],
    "its expiry": ["", "lost"],
    "the end of its retention": ["", "lost"],
  },
  "running stop": {
    "start A": ["go"],
    "start B": ["no: running"],
    "control A": ["alive, stop"],
    "control B": ["dead: running"],
    "done A": ["stored: cancelled", "cancelled stop early =done"],
    "other A": ["stored: cancelled", "cancelled stop early =other"],
    "broke A": ["stored: cancelled", "cancelled stop early =broke"],
    "halted A": ["stored: cancelled", "cancelled stop =halted"],
    "done B": ["kept_out: running"],
    "halted B": ["kept_out: running"],
    "done without an attempt": ["kept_out: running"],
    "halted without an attempt": ["kept_out: running"],
    cancel: ["cancelling: running stop"],
    "just before the lease ends": [""],
    "the lease's end": ["", "lost stop"],
    "just before it expires": ["", "lost stop"],
    "its expiry": ["", "lost stop"],
    "the end of its retention": ["", "lost stop"],
  },
  "completed =done": { ...over("completed =done"), "done A": ["already_stored: completed"] },
  "failed =broke": { ...over("failed =broke"), "broke A": ["already_stored: failed"] },
  "cancelled =halted": { ...over("cancelled =halted"), "halted A": ["already_stored: cancelled"] },
  "cancelled stop": over("cancelled stop"),
  "cancelled stop early =done": {
    ...over("cancelled stop early =done"),
    "done A": ["already_stored: cancelled"],
  },
  expired: over("expired"),
  lost: {
    "start A": ["no: lost"],
    "start B": ["no: lost"],
    "control A": ["alive", "running"],
    "control B": ["dead: lost"],
    "done A": ["stored: completed", "completed late =done"],
    "other A": ["stored: completed", "completed late =other"],
    "broke A": ["stored: failed", "failed late =broke"],
    "halted A": ["stored: cancelled", "cancelled late =halted"],
    "done B": ["kept_out: lost"],
    "halted B": ["kept_out: lost"],
    "done without an attempt": ["kept_out: lost"],
    "halted without an attempt": ["kept_out: lost"],
    cancel: ["cancelling: lost stop", "lost stop"],
    ...TIME,
  },
  "lost stop": {
    "start A": ["no: lost"],
    "start B": ["no: lost"],
    "control A": ["alive, stop", "running stop"],
    "control B": ["dead: lost"],
    "done A": ["stored: cancelled", "cancelled stop late early =done"],
    "other A": ["stored: cancelled", "cancelled stop late early =other"],
    "broke A": ["stored: cancelled", "cancelled stop late early =broke"],
    "halted A": ["stored: cancelled", "cancelled stop late =halted"],
    "done B": ["kept_out: lost"],
    "halted B": ["kept_out: lost"],
    "done without an attempt": ["kept_out: lost"],
    "halted without an attempt": ["kept_out: lost"],
    cancel: ["cancelling: lost stop"],
    ...TIME,
  },
  "completed late =done": { ...over("completed late =done"), "done A": ["already_stored: completed"] },
};

/** What the same call answers the second time; else the same as before. */
function again(answer: string): string {
  return answer.replace(/^stored/, "already_stored").replace(/^cancelled: /, "already_finished: ");
}

beforeEach(() => vi.useFakeTimers({ toFake: ["Date"], now: START }));
afterEach(() => vi.useRealTimers());

async function runIn(state: State): Promise<Run> {
  const project = await newProject();
  const asked = request(project);
  await project.queue.enqueue(asked);
  const run = new Run(project, asked.command_id);
  await STATES[state](run);
  expect(await run.stands()).toBe(state);
  return run;
}

describe.each(Object.keys(STATES) as State[])("a run that is %s", (state) => {
  it.each(Object.keys(EVENTS) as Event[])("meets: %s", async (event) => {
    const [answer, after = state] = TABLE[state][event];
    const run = await runIn(state);
    expect(await EVENTS[event](run)).toBe(answer);
    expect(await run.stands()).toBe(after);
    if (event in TIME) return;
    expect(await EVENTS[event](run), "the same call again").toBe(again(answer));
    expect(await run.stands(), "after the same call again").toBe(after);
  });

  it.each(Object.keys(TIME) as (keyof typeof TIME)[])("meets, by the alarm: %s", async (event) => {
    const run = await runIn(state);
    await EVENTS[event](run);
    await runDurableObjectAlarm(run.project.stub);
    expect(await run.stands()).toBe(TABLE[state][event][1] ?? state);
  });
});

it("answers a ticket, a pass, a start, a sign, a result and a late cancel along the way", async () => {
  const p = await newProject();
  const asked = request(p, { arguments_json: '{"folder":"src"}' });
  const ticket = await p.queue.enqueue(asked);
  expect(ticket).toMatchObject({ ok: true, created: true, run: { status: "queued", queue_position: 1 } });
  const pass = await p.queue.sync({ device_id: p.device_id, sessions_digest: "", token_issued_at: 1 });
  expect(pass).toEqual({
    ok: true,
    digest_matches: true,
    set_version: null,
    commands: [
      {
        command_id: asked.command_id,
        graph_session_id: asked.graph_session_id,
        slug: "report",
        arguments_json: '{"folder":"src"}',
        agent_name: "Claude",
        queued_at: START,
        expires_at: START + EXPIRY,
      },
    ],
  });
  const mine = { device_id: p.device_id, command_id: asked.command_id, attempt_id: A };
  vi.setSystemTime(START + 1_000);
  expect(await p.queue.start(mine)).toEqual({ ok: true, value: { go: true, lease_seconds: 90 } });
  const progress = { state: "running", percent: 40, message: "reading" } as const;
  vi.setSystemTime(START + 2_000);
  expect(await p.queue.control({ ...mine, progress })).toEqual({
    ok: true,
    value: { alive: true, cancel_requested: false, lease_seconds: 90 },
  });
  const own = { agent_id: p.agent_id, command_id: asked.command_id, wait_ms: 0 };
  const fixed = {
    command_id: asked.command_id,
    graph_session_id: p.session_id,
    device_id: p.device_id,
    cancel_requested: false,
    queued_at: START,
    started_at: START + 1_000,
    late: false,
    finished_before_stop: false,
  };
  expect(await p.queue.getRun(own)).toEqual({
    ...fixed,
    status: "running",
    desktop: { online: true, last_seen_at: START + 2_000 },
    progress_json: JSON.stringify(progress),
  });
  vi.setSystemTime(START + 3_000);
  await p.queue.complete({ ...mine, completion: OUTCOMES.done });
  expect(await p.queue.getRun(own)).toEqual({
    ...fixed,
    status: "completed",
    desktop: { online: true, last_seen_at: START + 3_000 },
    finished_at: START + 3_000,
    kept_until: START + 3_000 + RETENTION,
    outcome_json: JSON.stringify(OUTCOMES.done),
  });
});

it("dates what time did by when it was due, not by when it was noticed", async () => {
  const run = await runIn("running");
  vi.setSystemTime(START + 5 * LEASE);
  const own = { agent_id: run.project.agent_id, command_id: run.command_id, wait_ms: 0 };
  expect(await run.project.queue.getRun(own)).toMatchObject({
    status: "lost",
    finished_at: START + LEASE,
    kept_until: START + LEASE + RETENTION,
  });
});

it("keeps a running command alive for a lease after each sign", async () => {
  const run = await runIn("running");
  for (let i = 0; i < 4; i++) {
    await run.passes(LEASE - 1);
    expect(await run.control(A)).toBe("alive");
  }
  await run.passes(LEASE - 1);
  expect(await run.start(A)).toBe("go");
  await run.passes(LEASE - 1);
  expect(await run.stands()).toBe("running");
  await run.passes(1);
  expect(await run.stands()).toBe("lost");
});

it("is running as before when its laptop is back, with nothing left of having been lost", async () => {
  const run = await runIn("running");
  const own = { agent_id: run.project.agent_id, command_id: run.command_id, wait_ms: 0 };
  const before = await run.project.queue.getRun(own);
  await run.passes(2 * LEASE);
  expect(await run.stands()).toBe("lost");
  await run.control(A);
  const seen = { desktop: { online: true, last_seen_at: START + 2 * LEASE } };
  expect(await run.project.queue.getRun(own)).toEqual({ ...before, ...seen });
});

it("outlives what it would have been kept for while it was lost", async () => {
  const project = await newProject({ lease_seconds: 900, retention_seconds: 3600 });
  const asked = request(project);
  await project.queue.enqueue(asked);
  const run = new Run(project, asked.command_id);
  await run.start(A);
  await run.passes(900_000);
  expect(await run.stands()).toBe("lost");
  for (let i = 0; i < 6; i++) {
    expect(await run.control(A)).toBe("alive");
    await run.passes(800_000);
    await runDurableObjectAlarm(project.stub);
  }
  expect(await run.complete("done", A)).toBe("stored: completed");
  expect(await run.stands()).toBe("completed =done");
});

it("keeps the last progress through signs without any, until the run ends", async () => {
  const run = await runIn("running");
  const { queue, device_id, agent_id } = run.project;
  const own = { agent_id, command_id: run.command_id, wait_ms: 0 };
  const shown = async () => (await queue.getRun(own))?.progress_json;
  expect(await shown()).toBe(undefined);
  const sign = { device_id, command_id: run.command_id, attempt_id: A };
  await queue.control({ ...sign, progress: { state: "awaiting_approval", message: "write a.txt?" } });
  await run.control(A);
  expect(await shown()).toBe('{"state":"awaiting_approval","message":"write a.txt?"}');
  await queue.control({ ...sign, progress: { state: "running" } });
  expect(await shown()).toBe('{"state":"running"}');
  await run.complete("done", A);
  expect(await shown()).toBe(undefined);
});

it("says of a run that its own laptop was stopping that it had finished first, if the relay says so", async () => {
  const run = await runIn("running");
  const completion = { ...OUTCOMES.halted, finished_before_stop: true };
  const { queue, device_id, agent_id } = run.project;
  await queue.complete({ device_id, command_id: run.command_id, attempt_id: A, completion });
  expect(await queue.getRun({ agent_id, command_id: run.command_id, wait_ms: 0 })).toMatchObject({
    status: "cancelled",
    cancel_requested: false,
    finished_before_stop: true,
  });
});

it("does not say that a stopped run had finished first, if its relay knows that it had not", async () => {
  const run = await runIn("running stop");
  const completion = { ...OUTCOMES.broke, finished_before_stop: false };
  const { queue, device_id, agent_id } = run.project;
  await queue.complete({ device_id, command_id: run.command_id, attempt_id: A, completion });
  expect(await queue.getRun({ agent_id, command_id: run.command_id, wait_ms: 0 })).toMatchObject({
    status: "cancelled",
    cancel_requested: true,
    finished_before_stop: false,
  });
});
