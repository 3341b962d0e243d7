import type { Mutant } from "./mutants.ts";

const fault = (name: string, file: string, find: string, replace: string): Mutant => ({
  name,
  mutations: [{ file: `relay-cli/${file}`, find, replace }],
});

/** Faults of the relay and its store. */
export const LAPTOP_MUTANTS: readonly Mutant[] = [
  fault(
    "the journal forgets that a run was started",
    "store/attempts.ts",
    "SET state = 'started' WHERE",
    "SET state = 'prepared' WHERE",
  ),
  fault(
    "what an earlier relay had started is started again",
    "relay/loop.ts",
    'if (!recovered) reportOrphans(ports, store.attempts.inState("started"));',
    'if (!recovered) for (const a of store.attempts.inState("started")) { store.attempts.finish(a.command_id, { execution_id: a.execution_id, outcome: { status: "failed", total_tokens: null, reported_cost: null }, finished_at: 0 }, { command_id: a.command_id, project_id: a.project_id, attempt_id: a.attempt_id, completion: { execution_id: a.execution_id, status: "failed" }, truncated: false, last_failure: null }); store.outbox.delivered(a.command_id); }',
  ),
  fault(
    "an outcome is deleted before the server has it",
    "relay/outbox.ts",
    "const answer = await api.complete(",
    "store.outbox.delivered(command_id);\n    const answer = await api.complete(",
  ),
  fault(
    "an outcome is only sent, not kept",
    "store/attempts.ts",
    "recordEnd(sql, record);\n        putInOutbox(sql, outbox);",
    "recordEnd(sql, record);",
  ),
  fault(
    "trouble with the network counts as a refusal for good",
    "relay/outbox.ts",
    'if (failure.kind === "permanent" ||',
    'if (failure.code === "network" || failure.kind === "permanent" ||',
  ),
  fault(
    "an outcome goes out without its attempt",
    "relay/outbox.ts",
    "...(item.attempt_id === null ? {} : { attempt_id: item.attempt_id }),",
    "",
  ),
  fault(
    "consent is not looked at again before the start",
    "store/attempts.ts",
    "AND shares.graph_session_id = attempts.graph_session_id AND graphs.slug = attempts.slug)",
    "OR 1)",
  ),
  {
    name: "a renamed Graph runs under its old consent",
    mutations: [
      {
        file: "relay-cli/store/attempts.ts",
        find: " AND graphs.slug = attempts.slug)",
        replace: ")",
      },
      {
        file: "relay-cli/relay/consent.ts",
        find: " && graph.slug === asked.slug",
        replace: "",
      },
    ],
  },
  fault("the poll loop runs twice", "relay/loop.ts", "await work();", "await Promise.all([work(), work()]);"),
  fault(
    "runs of one session may overlap",
    "relay/commands.ts",
    '!isBusy(session) &&\n    !store.attempts.inState("prepared").some((other) => other.graph_session_id === session);',
    "true;",
  ),
  fault(
    "more Graphs run than were allowed",
    "relay/commands.ts",
    "const hasRoom = () => running.size < options.concurrency;",
    "const hasRoom = () => running.size <= options.concurrency;",
  ),
  fault(
    "the newest command is taken first",
    "relay/commands.ts",
    "for (const raw of commands) {",
    "for (const raw of [...commands].reverse()) {",
  ),
  fault(
    "a command overtakes one that waits for its session",
    "relay/commands.ts",
    "waiting.add(session);",
    "",
  ),
  fault(
    "a no to the start is not minded",
    "relay/commands.ts",
    "if (!answer.value.go) {",
    "if (!answer.value.go && answer.value.status === 'queued') {",
  ),
  fault(
    "an attempt without an answer is never gone on with",
    "relay/loop.ts",
    "const resumed = await taker.resume();",
    "const resumed = undefined as Awaited<ReturnType<typeof taker.resume>>;",
  ),
  fault(
    "an order to stop is not passed on",
    "relay/control.ts",
    'else if (answer.value.cancel_requested) events.stop("cancel_requested");',
    "",
  ),
  fault(
    "heartbeats end with the first that fails",
    "relay/control.ts",
    "const pause = backoff.failed(clock.monotonic(), failure.retryAfterMs);",
    "ended.abort(); const pause = 0;",
  ),
  fault(
    "a stopped run's outcome is not sent while the rest is busy",
    "relay/run.ts",
    "control?.end();\n    await control?.done;",
    "await control?.done;",
  ),
  fault(
    "a disabled project is not told that nothing is shared any more",
    "relay/sync.ts",
    "project.enabled || (project.told_digest",
    "project.enabled || (project.problem !== null && project.told_digest",
  ),
  fault(
    "every trouble is logged again at each pass",
    "relay/loop.ts",
    "if (failure?.text === trouble) return;",
    "",
  ),
  fault(
    "what a relay may still hold of a session is not noted before it is sent",
    "relay/sync.ts",
    "if (set.digest !== EMPTY_DIGEST) store.projects.noteSent(project_id, set.digest);",
    "",
  ),
  {
    name: "a result that was cut does not say so",
    mutations: [{ file: "src/protocol/completion.ts", find: "    result_truncated: true,\n", replace: "" }],
  },
];
