import fc from "fast-check";
import { expect, it } from "vitest";
import type { Completion } from "../../src/protocol/completion.ts";
import { projectSettings } from "../../src/protocol/limits.ts";
import type { OutcomeState } from "../../src/protocol/states.ts";
import { openQueue } from "../support/queue-storage.ts";

// The queue against a model of design sections 3 and 4 that is short enough to be read as the rules
// themselves. One project, two agents, two devices; any order of calls, repeats, lapses of time and restarts.

const SETTINGS = projectSettings.parse({ max_queued_per_project: 4, max_queued_per_agent: 3 });
const EXPIRY = SETTINGS.queue_expiry_seconds * 1000;
const LEASE = SETTINGS.lease_seconds * 1000;
const KEPT = SETTINGS.retention_seconds * 1000;
const AGENTS = ["agt_1", "agt_2"];
const DEVICES = ["dev_1", "dev_2"];

interface Run {
  id: string;
  agent: string;
  device: string;
  key: string;
  args: string;
  status: string;
  /** When time changes it next. */
  until: number;
  attempt?: string;
  stop: boolean;
  late: boolean;
  early: boolean;
  outcome?: string;
}

class Model {
  runs: Run[] = [];
  now = 0;

  advance(to: number): void {
    this.now = to;
    for (const run of this.runs) {
      const next = { queued: "expired", running: "lost" }[run.status];
      if (next && run.until <= to) this.end(run, next, run.until);
    }
    this.runs = this.runs.filter((run) => run.until > to);
  }
  end(run: Run, status: string, at = this.now): void {
    Object.assign(run, { status, until: at + KEPT });
  }
  queued = (agent?: string) =>
    this.runs.filter((r) => r.status === "queued" && (agent ?? r.agent) === r.agent);

  enqueue(id: string, agent: string, device: string, key: string, args: string): string {
    const run = this.runs.find((r) => r.agent === agent && r.key === key);
    if (run) return run.args === args ? `ticket ${run.id}` : `conflict ${run.id} ${run.status}`;
    if (this.queued(agent).length >= 3) return "full agent";
    if (this.queued().length >= 4) return "full project";
    const fresh = { status: "queued", until: this.now + EXPIRY, stop: false, late: false, early: false };
    this.runs.push({ id, agent, device, key, args, ...fresh });
    return `ticket ${id}`;
  }
  start(run: Run, attempt: string): string {
    const again = run.status === "running" && run.attempt === attempt;
    if (run.status !== "queued" && !again) return `no ${run.status}`;
    Object.assign(run, { status: "running", attempt, until: this.now + LEASE });
    return "go";
  }
  control(run: Run, attempt: string): string {
    if (!["running", "lost"].includes(run.status) || run.attempt !== attempt) return `dead ${run.status}`;
    Object.assign(run, { status: "running", until: this.now + LEASE });
    return run.stop ? "stop" : "alive";
  }
  complete(run: Run, attempt: string | undefined, status: OutcomeState, outcome: string): string {
    const runs = ["running", "lost"].includes(run.status) && attempt !== undefined && run.attempt === attempt;
    if (runs || (run.status === "queued" && status === "cancelled")) {
      Object.assign(run, { late: run.status === "lost", early: run.stop && status !== "cancelled" });
      Object.assign(run, { outcome, ...(attempt && { attempt }) });
      this.end(run, run.stop ? "cancelled" : status);
      return `stored ${run.status}`;
    }
    const same = run.outcome === outcome && run.attempt === attempt;
    return `${same ? "already_stored" : "kept_out"} ${run.status}`;
  }
  cancel(run: Run): string {
    if (run.status === "queued") {
      run.stop = true;
      this.end(run, "cancelled");
      return "cancelled";
    }
    if (!["running", "lost"].includes(run.status)) return `already_finished ${run.status}`;
    run.stop = true;
    return "cancelling";
  }
}

const small = (max: number) => fc.nat({ max });
/** Which of the runs there were, newest first, and whether who owns it asks. */
const which = { run: small(3), owner: fc.nat({ max: 9 }).map((n) => n > 0) };
const attempt = fc.oneof(
  { weight: 4, arbitrary: fc.constant("att_1") },
  { weight: 1, arbitrary: fc.constant("att_2") },
);
const event = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant("enqueue" as const),
      agent: small(1),
      device: small(1),
      key: small(5),
      args: small(1),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("start" as const), ...which, attempt }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("control" as const), ...which, attempt }) },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant("complete" as const),
      ...which,
      attempt: fc.option(attempt, { nil: undefined }),
      status: fc.constantFrom<OutcomeState[]>("completed", "failed", "cancelled"),
      execution: small(1),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("cancel" as const), ...which }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("pass" as const),
      by: fc.constantFrom(1, 3000, LEASE - 1, LEASE, LEASE, EXPIRY, KEPT),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom("alarm" as const, "restart" as const) }) },
);
type Event = typeof event extends fc.Arbitrary<infer T> ? T : never;

interface Who {
  command_id: string;
  agent_id: string;
  device_id: string;
}

const completionOf = (e: Event & { do: "complete" }): Completion => ({
  execution_id: `exe_${e.execution}`,
  status: e.status,
});

/** Both sides of one history, step by step. */
class Pair {
  readonly model = new Model();
  readonly clock = { now: () => this.model.now };
  readonly opened = openQueue(this.clock);
  queue = this.opened.queue;
  /** The runs there were, with who asked for each and whose device it is for. */
  readonly asked: Who[] = [];

  constructor() {
    this.queue.applyAccess({
      project_id: "prj_1",
      version: 1,
      agents: AGENTS.map((agent_id) => ({ agent_id, name: agent_id })),
      devices: DEVICES.map((device_id) => ({ device_id })),
      settings: SETTINGS,
    });
  }

  /** What the queue answers, in the model's words. */
  said(e: Event, { command_id, agent_id, device_id }: Who): string | undefined {
    switch (e.do) {
      case "pass":
        return undefined;
      case "alarm":
        this.queue.onAlarm();
        return undefined;
      case "restart":
        this.queue = openQueue(this.clock, undefined, this.opened.storage).queue;
        return undefined;
      case "enqueue": {
        const keys = { idempotency_key: `key_${e.key}`, arguments_json: `{"a":${e.args}}` };
        const asked = { agent_id, device_id, command_id, ...keys, graph_session_id: "gs_1", slug: "report" };
        const answer = this.queue.enqueue(asked);
        if (answer.ok) return `ticket ${answer.run.command_id}`;
        if (answer.error === "queue_full") return `full ${answer.scope}`;
        if (answer.error === "key_conflict") return `conflict ${answer.run.command_id} ${answer.run.status}`;
        return answer.error;
      }
      case "start": {
        const answer = this.queue.start({ device_id, command_id, attempt_id: e.attempt });
        if (!answer.ok) return undefined;
        return answer.value.go ? "go" : `no ${answer.value.status}`;
      }
      case "control": {
        const answer = this.queue.control({ device_id, command_id, attempt_id: e.attempt });
        if (!answer.ok) return undefined;
        if (!answer.value.alive) return `dead ${answer.value.status}`;
        return answer.value.cancel_requested ? "stop" : "alive";
      }
      case "complete": {
        const attempt = e.attempt && { attempt_id: e.attempt };
        const answer = this.queue.complete({
          device_id,
          command_id,
          ...attempt,
          completion: completionOf(e),
        });
        return answer.ok ? `${answer.value.record} ${answer.value.status}` : undefined;
      }
      case "cancel": {
        const answer = this.queue.cancel({ agent_id, command_id });
        return answer?.cancel === "already_finished"
          ? `${answer.cancel} ${answer.run.status}`
          : answer?.cancel;
      }
    }
  }

  /** What the model answers; `undefined` where there is no such run for who asks. */
  meant(e: Event, { command_id, agent_id, device_id }: Who): string | undefined {
    const run = this.model.runs.find((r) => r.id === command_id);
    if (e.do === "pass") this.model.advance(this.model.now + e.by);
    if (e.do === "enqueue")
      return this.model.enqueue(command_id, agent_id, device_id, `key_${e.key}`, `{"a":${e.args}}`);
    if (e.do === "cancel") return run?.agent === agent_id ? this.model.cancel(run) : undefined;
    if (run?.device !== device_id) return undefined;
    if (e.do === "start") return this.model.start(run, e.attempt);
    if (e.do === "control") return this.model.control(run, e.attempt);
    if (e.do === "complete")
      return this.model.complete(run, e.attempt, e.status, JSON.stringify(completionOf(e)));
    return undefined;
  }

  step(e: Event): void {
    const who = this.who(e);
    const said = this.said(e, who);
    expect(said).toBe(this.meant(e, who));
    if (said === `ticket ${who.command_id}`) this.asked.push(who);
  }

  who(e: Event): Who {
    const at = (list: string[], i: number) => list[i % list.length] ?? "";
    if (e.do === "enqueue")
      return {
        command_id: `cmd_${this.asked.length}`,
        agent_id: at(AGENTS, e.agent),
        device_id: at(DEVICES, e.device),
      };
    const owner = "run" in e ? this.asked.at(-1 - e.run) : undefined;
    if (!owner) return { command_id: "none", agent_id: at(AGENTS, 0), device_id: at(DEVICES, 0) };
    if ("owner" in e && e.owner) return owner;
    return {
      command_id: owner.command_id,
      agent_id: at(AGENTS, AGENTS.indexOf(owner.agent_id) + 1),
      device_id: at(DEVICES, DEVICES.indexOf(owner.device_id) + 1),
    };
  }

  /** Every run reads as the model has it, to its own agent and to nobody else. */
  compare(asked: Who[]): void {
    for (const { command_id } of asked) {
      const run = this.model.runs.find((r) => r.id === command_id);
      for (const agent_id of AGENTS) {
        const view = this.queue.getRun({ agent_id, command_id });
        if (run?.agent !== agent_id) expect(view).toBe(undefined);
        else
          expect(view).toMatchObject({
            status: run.status,
            cancel_requested: run.stop,
            late: run.late,
            finished_before_stop: run.early,
            ...(run.outcome && { outcome_json: run.outcome }),
            ...(run.status === "queued" && { expires_at: run.until }),
            ...(!["queued", "running"].includes(run.status) && { kept_until: run.until }),
          });
      }
    }
    for (const device_id of DEVICES) {
      const pass = this.queue.sync({ device_id, sessions_digest: "", token_issued_at: 0 });
      const meant = this.model.queued().filter((r) => r.device === device_id);
      expect(pass.ok && pass.commands.map((c) => c.command_id)).toEqual(meant.map((r) => r.id));
    }
    const next = Math.min(...this.model.runs.map((r) => r.until));
    if (this.model.runs.length > 0) expect(this.queue.nextAlarm()).toBeLessThanOrEqual(next);
  }
}

it("is its model, whatever happens in whatever order", { timeout: 30_000 }, () => {
  fc.assert(
    fc.property(fc.array(event, { minLength: 30, maxLength: 60, size: "max" }), (events) => {
      const pair = new Pair();
      for (const e of events) {
        pair.step(e);
        pair.compare(pair.asked.slice(-1));
      }
      pair.compare(pair.asked);
      pair.opened.storage.close();
    }),
    { numRuns: Number(process.env.QUEUE_MODEL_RUNS ?? 40) },
  );
});
