import { EMPTY_DIGEST } from "../../src/protocol/relay-api.ts";
import type { Project } from "../store/contract.ts";
import type { RelayApi } from "./api.ts";
import type { CommandTaker } from "./commands.ts";
import { endsPass } from "./commands.ts";
import { type Failure, printable } from "./failure.ts";
import type { RelayOptions, RelayPorts } from "./ports.ts";
import { sharedSet } from "./sessions.ts";
import { isOlder } from "./version.ts";

export interface SyncResult {
  failure?: Failure;
  /** When the server wants the next pass, in milliseconds. */
  nextPollMs?: number;
}

/** Tells one project what is shared with it, and takes up what is queued there. */
async function syncProject(
  ports: RelayPorts,
  api: RelayApi,
  taker: CommandTaker,
  options: RelayOptions,
  project: Project,
): Promise<SyncResult> {
  const { store, log } = ports;
  const { project_id } = project;
  const set = sharedSet(store.projects.shared(project_id), ports.isReady);
  if (project.told_digest !== set.digest)
    for (const graph of set.leftOut)
      log.warn(
        `${graph.slug} cannot be shared with ${printable(project.name)}: see \`graph-relay graph list\`.`,
      );
  const request = { project_id, sessions_digest: set.digest, client_version: options.clientVersion };

  let answer = await api.sync(request);
  if (answer.ok && answer.value.sessions === "send") {
    // Before it is sent: if the answer is lost, the server still has to hear when it is withdrawn. That it
    // is withdrawn counts only once it is confirmed.
    if (set.digest !== EMPTY_DIGEST) store.projects.noteSent(project_id, set.digest);
    const { set_version } = answer.value;
    answer = await api.sync({
      ...request,
      sessions: set.sessions,
      ...(set_version === undefined ? {} : { set_version }),
    });
  }
  if (!answer.ok) {
    const { failure } = answer;
    if (failure.kind !== "permanent") return { failure };
    // This project is refused; the others are not. The owner sees it in `status`.
    if (project.problem !== failure.text) log.warn(`Project ${printable(project.name)}: ${failure.text}`);
    store.projects.noteSync(project_id, { problem: failure.text });
    return {};
  }
  const { commands, next_poll_seconds, minimum_version, sessions } = answer.value;
  if (isOlder(options.clientVersion, minimum_version))
    return { failure: tooOld(options.clientVersion, minimum_version) };
  if (isTold(set.digest, sessions, commands.length)) {
    // Two machines with one state file tell the server in turns; that is no news each time.
    if (project.told_digest !== set.digest)
      log.info(
        `Project ${printable(project.name)} now sees ${set.sessions.length} Graph(s) of this machine.`,
      );
    store.projects.noteSync(project_id, { told_digest: set.digest });
  }
  const failure = await taker.take(project_id, commands);
  return { nextPollMs: next_poll_seconds * 1_000, ...(failure ? { failure } : {}) };
}

/**
 * Whether the project now knows what it has to. That nothing is shared any more is known only once a pass
 * finds it so and nothing left to refuse: what agents asked for before they saw it may come after.
 */
function isTold(digest: string, sessions: "unchanged" | "stored" | "send", queued: number): boolean {
  return digest === EMPTY_DIGEST ? sessions === "unchanged" && queued === 0 : sessions !== "send";
}

/** Enabled projects, and disabled ones that still have to hear that nothing is shared any more. */
function projectsToSync(projects: readonly Project[]): Project[] {
  return projects.filter(
    (project) => project.enabled || (project.told_digest !== null && project.told_digest !== EMPTY_DIGEST),
  );
}

/** One sync after the other; trouble that concerns all of them ends the round. */
export async function syncAll(
  ports: RelayPorts,
  api: RelayApi,
  taker: CommandTaker,
  options: RelayOptions,
): Promise<SyncResult> {
  let last: Failure | undefined;
  let nextPollMs: number | undefined;
  for (const project of projectsToSync(ports.store.projects.list())) {
    const result = await syncProject(ports, api, taker, options, project);
    last = result.failure ?? last;
    if (result.nextPollMs !== undefined) nextPollMs = Math.min(nextPollMs ?? Infinity, result.nextPollMs);
    if (result.failure && endsPass(result.failure)) break;
  }
  return { ...(last ? { failure: last } : {}), ...(nextPollMs === undefined ? {} : { nextPollMs }) };
}

function tooOld(own: string, minimum: string): Failure {
  return {
    kind: "stop",
    code: "version_unsupported",
    text: `This relay (${own}) is too old for the server, which needs ${minimum}. Install the newest graph-relay.`,
  };
}
