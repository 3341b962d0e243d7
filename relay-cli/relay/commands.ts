import { NO_LONGER_SHARED } from "../../src/protocol/errors.ts";
import { newUuid, projectOfCommand } from "../../src/protocol/ids.ts";
import { type SyncCommand, syncCommand } from "../../src/protocol/relay-api.ts";
import type { CommandState } from "../../src/protocol/states.ts";
import type { Attempt, Graph, NewAttempt, OutboxItem } from "../store/contract.ts";
import type { RelayApi } from "./api.ts";
import { hasConsent } from "./consent.ts";
import { type Failure, printable } from "./failure.ts";
import type { RelayPorts } from "./ports.ts";
import { type Run, startRun } from "./run.ts";

/** What is reported of a command whose go-ahead came too late to be used. */
const NEVER_STARTED =
  "The Graph was never started: the go-ahead reached the desktop too late. It is safe to ask for it again";

/** Takes up commands: consent, journal, go-ahead, start. Each step is on the disk before the next. */
export interface CommandTaker {
  /** Commands of one sync, oldest first. Takes as many as there is room for, and refuses those without consent. */
  take(projectId: string, commands: readonly unknown[]): Promise<Failure | undefined>;
  /** Goes on with attempts that had no clear answer to their start. */
  resume(): Promise<Failure | undefined>;
  readonly running: ReadonlyMap<string, Run>;
  hasRoom(): boolean;
}

export interface CommandTakerOptions {
  concurrency: number;
  /** False once the relay is to take up nothing more. */
  mayStart(): boolean;
  /** A run is over and its outcome is saved. */
  runEnded(): void;
  refused(failure: Failure): void;
}

export function createCommandTaker(
  ports: RelayPorts,
  api: RelayApi,
  options: CommandTakerOptions,
): CommandTaker {
  const { clock, store, log } = ports;
  const running = new Map<string, Run>();
  const hasRoom = () => running.size < options.concurrency;
  const isBusy = (session: string) =>
    [...running.values()].some((run) => run.attempt.graph_session_id === session);

  const consented = (attempt: NewAttempt) =>
    hasConsent(attempt, store.projects.find(attempt.project_id), store.projects.shared(attempt.project_id));

  /** Reports a command that did not run. `attempt_id` goes along if the server may know it. */
  function refuse(attempt: NewAttempt, asked: boolean, status: "cancelled" | "failed", error: string): void {
    const item: OutboxItem = {
      command_id: attempt.command_id,
      project_id: attempt.project_id,
      attempt_id: asked ? attempt.attempt_id : null,
      completion: { execution_id: attempt.execution_id, status, error, finished_before_stop: false },
      truncated: false,
      last_failure: null,
    };
    if (store.attempts.refuse(attempt, item))
      log.warn(`Did not run ${printable(attempt.slug)} (${attempt.command_id}): ${error}`);
  }

  function notStarted(attempt: NewAttempt, status: CommandState): void {
    if (status === "lost") refuse(attempt, true, "failed", NEVER_STARTED);
    else if (store.attempts.drop(attempt.command_id, `the server says it is ${status}`))
      log.info(`Did not run ${attempt.slug} (${attempt.command_id}): the server says it is ${status}`);
  }

  /** The start will never be granted. Whoever asked for the run hears of it, unless the server knows of none. */
  function startRefused(attempt: NewAttempt, { code, text }: Failure): void {
    if (code !== "command_not_found" && code !== "project_not_found")
      refuse(attempt, true, "cancelled", `The Graph was never started: ${text}`);
    else if (store.attempts.drop(attempt.command_id, text))
      log.warn(`Did not run ${attempt.slug} (${attempt.command_id}): ${text}`);
  }

  /** From `prepared` to a running Graph. A failure leaves it `prepared`, for the next pass. */
  async function start(attempt: Attempt): Promise<Failure | undefined> {
    if (!consented(attempt)) {
      refuse(attempt, true, "cancelled", NO_LONGER_SHARED);
      return undefined;
    }
    const asked = { wall: clock.wall(), monotonic: clock.monotonic() };
    const answer = await api.start(attempt.command_id, attempt.attempt_id);
    if (!answer.ok) {
      if (answer.failure.kind !== "permanent") return answer.failure;
      startRefused(attempt, answer.failure);
      return undefined;
    }
    if (!answer.value.go) {
      notStarted(attempt, answer.value.status);
      return undefined;
    }
    // The machine may have slept on the answer; the wall clock can tell, and is used only to ask once more.
    const waited = Math.max(clock.monotonic() - asked.monotonic, clock.wall() - asked.wall);
    if (waited > answer.value.lease_seconds * 1_000)
      return { kind: "retry", code: "network", text: "The go-ahead came too late; asking again." };
    if (!options.mayStart()) return undefined;
    const graph = store.graphs.find(attempt.graph_session_id);
    if (graph && store.attempts.begin(attempt.command_id, clock.wall())) launch(attempt, graph);
    else refuse(attempt, true, "cancelled", NO_LONGER_SHARED);
    return undefined;
  }

  function launch(attempt: Attempt, graph: Graph): void {
    log.info(`Running ${attempt.slug} for ${printable(attempt.agent_name)} (${attempt.command_id})`);
    const run = startRun(ports, api, attempt, graph, options.refused);
    running.set(attempt.command_id, run);
    void run.ended.then(() => {
      running.delete(attempt.command_id);
      options.runEnded();
    });
  }

  const newAttempt = (projectId: string, command: SyncCommand): NewAttempt => ({
    command_id: command.command_id,
    attempt_id: newUuid(ports.random),
    execution_id: newUuid(ports.random),
    project_id: projectId,
    graph_session_id: command.graph_session_id,
    slug: command.slug,
    arguments_json: JSON.stringify(command.arguments),
    agent_name: command.agent_name,
  });

  /** Whether a run of this session could start now. */
  const isFree = (session: string): boolean =>
    options.mayStart() &&
    hasRoom() &&
    !isBusy(session) &&
    !store.attempts.inState("prepared").some((other) => other.graph_session_id === session);

  async function takeUp(attempt: NewAttempt): Promise<Failure | undefined> {
    if (!store.attempts.prepare(attempt)) return undefined;
    return start({ ...attempt, state: "prepared", reason: null });
  }

  return {
    running,
    hasRoom,
    async take(projectId, commands) {
      let last: Failure | undefined;
      // Sessions with a command that waits. A run may end while another start is awaited; what was asked for
      // later must not take the place of what waits for it.
      const waiting = new Set<string>();
      for (const raw of commands) {
        const parsed = syncCommand.safeParse(raw);
        if (!parsed.success || projectOfCommand(parsed.data.command_id) !== projectId) {
          log.warn("Ignored a command of the server that is not well formed or not of this project.");
          continue;
        }
        if (store.attempts.find(parsed.data.command_id)) continue;
        const attempt = newAttempt(projectId, parsed.data);
        const session = attempt.graph_session_id;
        if (!consented(attempt)) {
          refuse(attempt, false, "cancelled", NO_LONGER_SHARED);
          continue;
        }
        if (waiting.has(session) || !isFree(session)) {
          waiting.add(session);
          continue;
        }
        const failure = await takeUp(attempt);
        last = failure ?? last;
        if (failure && endsPass(failure)) break;
      }
      return last;
    },
    async resume() {
      let last: Failure | undefined;
      for (const attempt of store.attempts.inState("prepared")) {
        if (!options.mayStart() || !hasRoom()) break;
        if (isBusy(attempt.graph_session_id)) continue;
        const failure = await start(attempt);
        last = failure ?? last;
        if (failure && endsPass(failure)) break;
      }
      return last;
    },
  };
}

/** Whether the trouble concerns every call, not only the one that met it. */
export const endsPass = (failure: Failure): boolean => failure.kind === "stop" || failure.code === "network";
