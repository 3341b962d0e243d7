import { isDeepStrictEqual } from "node:util";
import { RELAY_STOPPED } from "../../src/protocol/errors.ts";
import { isTerminal } from "../../src/protocol/states.ts";
import type { CancelOutput } from "../../src/protocol/tools.ts";
import type { Mark } from "../support/real-relay.ts";
import type { HistoryRow, RelayRecords, ServerRun } from "./records.ts";

/** One run that was asked for, and what the agent was told. */
export interface Asked {
  key: string;
  /** The session it is a run of. */
  sessionId: string;
  fails: boolean;
  characters: number;
  /** Every ticket that was given for its key. */
  tickets: Set<string>;
  /** What a request to cancel it was answered, if it was made. */
  cancel?: Pick<CancelOutput, "cancel" | "status">;
  /** Its start is to be refused by what stands in between: it never runs, and says so. */
  refused?: true;
}

/** What is found on the disks. */
export interface Facts {
  asked: readonly Asked[];
  server: readonly ServerRun[];
  relays: readonly { now: RelayRecords; deaths: readonly RelayRecords[]; marks: readonly Mark[] }[];
}

/** What holds at any moment, whoever lies dead: one line for each breach. */
export function brokenNow({ asked, server, relays }: Facts): string[] {
  const broken: string[] = [];
  for (const { key, tickets, cancel } of asked) {
    const runs = server.filter((run) => run.key === key);
    const begins = relays.flatMap(({ marks }) => marks).filter((m) => m.key === key && m.what === "begin");
    const executions = relays
      .flatMap(({ now }) => now.history)
      .filter(({ command_id }) => tickets.has(command_id));
    if (begins.length > 1 || executions.length > 1)
      broken.push(
        `started at most once: ${key} began ${begins.length} times in ${executions.length} executions`,
      );
    if (runs.length > 1 || tickets.size > 1)
      broken.push(`one key, one command: ${key} has ${runs.length} runs and ${tickets.size} tickets`);
    if (tickets.size > 0 && runs.length === 0) broken.push(`one key, one command: ${key} has lost its run`);
    if (cancel?.cancel === "cancelled" && begins.length > 0)
      broken.push(`a cancel keeps its word: ${key} was cancelled and began`);
    for (const run of runs)
      if (run.state === "completed" && begins.length !== 1)
        broken.push(`an answer is true: ${key} is completed and began ${begins.length} times`);
  }
  for (const { now, deaths } of relays)
    for (const earlier of deaths.flatMap(({ history }) => history).filter(isFinished)) {
      const later = now.history.find((row) => row.execution_id === earlier.execution_id);
      if (!isDeepStrictEqual({ ...later }, { ...earlier }))
        broken.push(`a finished result is never lost: ${earlier.execution_id} is not on the disk as it was`);
    }
  return broken;
}

/** What holds besides once everything is up and at rest. */
export function brokenAtRest(facts: Facts): string[] {
  const { asked, server, relays } = facts;
  const broken: string[] = [];
  const started = new Set(
    relays.flatMap(({ deaths }) =>
      deaths.flatMap(({ attempts }) =>
        attempts.filter(({ state }) => state === "started").map(({ command_id }) => command_id),
      ),
    ),
  );
  const finished = new Map(
    relays.flatMap(({ now }) => now.history.filter(isFinished).map((row) => [row.command_id, row] as const)),
  );
  for (const one of asked) {
    const run = server.find(({ key }) => key === one.key);
    if (!run) {
      broken.push(`every command ends: ${one.key} is unknown to the server`);
      continue;
    }
    const wrong = wrongRecord(one, run, finished.get(run.command_id), started.has(run.command_id));
    if (wrong !== undefined) broken.push(`${wrong} (${one.key}, command ${run.command_id})`);
  }
  for (const { now } of relays) {
    const open = now.attempts.filter(({ state }) => state !== "ended");
    if (now.outbox.length > 0) broken.push(`a finished result arrives: the outbox holds ${show(now.outbox)}`);
    if (now.dead_letters.length > 0)
      broken.push(`a finished result arrives: dead letters ${show(now.dead_letters)}`);
    if (open.length > 0) broken.push(`every command ends: the journal holds ${show(open)}`);
  }
  return broken;
}

/** What is wrong with the server's record of a run, if anything is. */
function wrongRecord(
  { key, fails, characters, cancel, refused }: Asked,
  run: ServerRun,
  finished: HistoryRow | undefined,
  diedWithIt: boolean,
): string | undefined {
  const { state, outcome } = run;
  if (!isTerminal(state) || (state === "lost" && finished)) return `every command ends: it is ${state}`;
  if (finished) {
    if (outcome?.execution_id !== finished.execution_id)
      return `a finished result arrives: the server has ${show(outcome)}`;
    const status = run.cancel_requested_at === null ? finished.status : "cancelled";
    if (state !== status) return `the record is right: ${state} for an execution that ${finished.status}`;
    const whole = finished.result_json === null ? undefined : JSON.parse(finished.result_json);
    if (outcome.result_truncated !== true && !isDeepStrictEqual(outcome.result, whole))
      return "a finished result arrives: it arrived changed";
  }
  if ((outcome?.error === RELAY_STOPPED) !== diedWithIt)
    return `the record is right: the relay ${diedWithIt ? "died" : "did not die"} with it, and its error is ${outcome?.error}`;
  if (refused) return state === "cancelled" ? undefined : `the record is right: it is ${state}`;
  if (cancel && cancel.cancel !== "already_finished")
    return state === "cancelled" ? undefined : `a cancel keeps its word: it is ${state}`;
  if (cancel && cancel.status !== state) return `a state is not taken back: ${cancel.status} became ${state}`;
  if (diedWithIt) return state === "failed" ? undefined : `the record is right: it is ${state}`;
  if (fails)
    return state === "failed" && outcome?.error?.includes(`Failed as asked: ${key}`)
      ? undefined
      : `the record is right: ${state}, ${outcome?.error}`;
  if (state !== "completed") return `the record is right: it is ${state}`;
  const own = { key, text: "x".repeat(characters) };
  return outcome?.result_truncated === true || isDeepStrictEqual(outcome?.result, own)
    ? undefined
    : "an answer is true: the result is not the Graph's";
}

const isFinished = (row: HistoryRow): boolean => row.finished_at !== null;
const show = (value: unknown): string => JSON.stringify(value)?.slice(0, 300) ?? "nothing";
