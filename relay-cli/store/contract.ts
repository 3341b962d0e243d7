import type { Completion } from "../../src/protocol/completion.ts";
import type { EngineEvent, RunOutcome } from "../engine/contract.ts";
import type { GraphSettings } from "../engine/settings.ts";

/**
 * The laptop's memory: one SQLite file behind this interface. Every method is synchronous and durable when
 * it returns; a method that throws has changed nothing. Methods that answer a boolean are guarded writes:
 * true says that this call won. Times are milliseconds since the epoch of this machine's clock, for the
 * owner's eyes alone: no rule reads them.
 */
export interface Store {
  readonly device: DeviceStore;
  readonly graphs: GraphStore;
  readonly projects: ProjectStore;
  readonly attempts: AttemptStore;
  readonly outbox: OutboxStore;
  readonly history: HistoryStore;
  readonly calls: CallStore;
  readonly settings: SettingsStore;
  readonly approvals: ApprovalStore;
  close(): void;
}

/** The pairing with an account: at most one. */
export interface DeviceStore {
  get(): Device | undefined;
  /** Stores the pairing, and the account's projects, in place of an earlier one. */
  pair(device: Device, projects: readonly KnownProject[]): void;
  /**
   * Forgets the pairing, its key, its projects and what is shared with them. Graphs and history stay; what
   * was not sent goes to the dead letters. Returns how many those are.
   */
  unpair(at: number): number;
}
export interface Device {
  device_id: string;
  account_name: string;
  /** Origin of the endpoint, such as `https://relay.example`. */
  server_url: string;
  name: string;
  /** The private key, as a JWK. It leaves this file only to sign. */
  private_jwk: string;
  paired_at: number;
}

/** The owner's saved Graphs on this machine. */
export interface GraphStore {
  /** Throws `StoreConflict` if the slug is taken. */
  add(graph: Graph): void;
  update(graph: Graph): boolean;
  /** Removes the Graph and unshares it everywhere. */
  remove(graphSessionId: string): boolean;
  list(): Graph[];
  /** By session id or slug. */
  find(idOrSlug: string): Graph | undefined;
}
/** A Graph session: the durable identity of one saved Graph on this machine. */
export interface Graph {
  graph_session_id: string;
  slug: string;
  name: string;
  description: string;
  version: string;
  /** Absolute path of the ES module. */
  path: string;
  /** JSON Schema of the arguments, as JSON text, if the Graph has one. */
  arguments_schema: string | null;
  added_at: number;
}

/** The account's projects, and what of this machine is shared with each. */
export interface ProjectStore {
  list(): Project[];
  /** By id, or by name if just one project bears it. */
  find(idOrName: string): Project | undefined;
  /** Takes over the account's list. A project that is gone from it goes, with its shares. */
  setKnown(projects: readonly KnownProject[]): void;
  setEnabled(projectId: string, enabled: boolean): boolean;
  /** Shares the Graph and enables the project. False if it was shared already. */
  share(projectId: string, graphSessionId: string, at: number): boolean;
  unshare(projectId: string, graphSessionId: string): boolean;
  /** The Graphs shared with a project, by session id. Empty while the project is disabled. */
  shared(projectId: string): Graph[];
  /** The ids of the projects a Graph is shared with, whether they are enabled or not. */
  sharedWith(graphSessionId: string): string[];
  /** Notes the digest of a set that is about to be sent: from now on the server may hold it. */
  noteSent(projectId: string, digest: string): void;
  /** Notes the digest the server confirmed, or why it refused the project. */
  noteSync(projectId: string, note: { told_digest?: string; problem?: string | null }): void;
  /** Grows with each change of pairing, Graphs, projects and shares, whichever process makes it. */
  sharingVersion(): number;
  /** Makes a running relay look at once, as a sharing change does. */
  bumpSharingVersion(): void;
}
export interface KnownProject {
  project_id: string;
  name: string;
}
export interface Project extends KnownProject {
  enabled: boolean;
  /** Digest of the set of sessions that the server last confirmed, or may hold since, if any. */
  told_digest: string | null;
  /** Why the last sync was refused for good, if it was. */
  problem: string | null;
}

/**
 * The journal: one row for each command this machine has ever taken up, so that none is started twice.
 * `prepared` before the start is asked for, `started` before the process is spawned, then `ended`.
 */
export interface AttemptStore {
  find(commandId: string): Attempt | undefined;
  /** Attempts in this state, oldest first. */
  inState(state: "prepared" | "started"): Attempt[];
  /** prepared: false if the command is in the journal already. */
  prepare(attempt: NewAttempt): boolean;
  /**
   * prepared → started, with its history entry, in one write, if at this moment the project is enabled and
   * the session shared with it under the same slug. False otherwise.
   */
  begin(commandId: string, at: number): boolean;
  /** prepared → ended: the server did not let it start. Nothing ran. */
  drop(commandId: string, reason: string): boolean;
  /**
   * prepared → ended, or a command that never was in the journal → ended, with its outbox item: nothing
   * ran, and the server is told why.
   */
  refuse(attempt: NewAttempt, outbox: OutboxItem): boolean;
  /** started → ended, with its full record and its outbox item, in one write. */
  finish(commandId: string, record: FinishedRun, outbox: OutboxItem): boolean;
  /** This file is a copy: forgets attempts that the original may be running. Returns how many. */
  disown(): number;
  /** Forgets all but the newest `keep` ended attempts. */
  prune(keep: number): number;
}
export interface NewAttempt {
  command_id: string;
  attempt_id: string;
  execution_id: string;
  project_id: string;
  graph_session_id: string;
  slug: string;
  /** JSON text of the arguments object; `{}` once it ended. */
  arguments_json: string;
  agent_name: string;
}
export interface Attempt extends NewAttempt {
  state: "prepared" | "started" | "ended";
  /** Why it ended without a run, if so. */
  reason: string | null;
}

/** Completions that the server has not confirmed yet, and those it refused for good. */
export interface OutboxStore {
  /** Oldest first. */
  pending(): OutboxItem[];
  /** The commands of the pending items, oldest first. */
  pendingIds(): string[];
  find(commandId: string): OutboxItem | undefined;
  /** The server confirmed it. */
  delivered(commandId: string): boolean;
  /** Puts a shorter completion in place of a refused one, once. */
  replaceTruncated(commandId: string, completion: Completion): boolean;
  /** Notes why the last try failed. Writes only if it is another reason than before. */
  noteFailure(commandId: string, reason: string): void;
  /** Moves an item to the dead letters. */
  bury(commandId: string, reason: string, at: number): boolean;
  deadLetters(): DeadLetter[];
  /** Moves a dead letter back, to be sent again. */
  revive(commandId: string): boolean;
  discard(commandId: string): boolean;
}
export interface OutboxItem {
  command_id: string;
  project_id: string;
  /** Absent where consent was withdrawn before any attempt. */
  attempt_id: string | null;
  completion: Completion;
  truncated: boolean;
  last_failure: string | null;
}
export interface DeadLetter extends OutboxItem {
  reason: string;
  buried_at: number;
}

/** What ran here, in full. */
export interface HistoryStore {
  /** A local run begins, in this process. A command's run is entered by `AttemptStore.begin`. */
  begin(entry: HistoryStart, processId: number): void;
  /** A local run ended. */
  finish(record: FinishedRun): void;
  /**
   * Ends, as `failed`, the local runs whose process is gone. A process that has the number of an earlier one
   * keeps that one's run `running` until it is gone too.
   */
  closeDead(isAlive: (processId: number) => boolean, at: number): void;
  addEvents(executionId: string, events: readonly { at: number; event: EngineEvent }[]): void;
  /** Newest first; of one Graph, if its slug is given. */
  list(limit: number, slug?: string): HistoryEntry[];
  find(executionId: string): HistoryEntry | undefined;
  events(executionId: string): { at: number; event: EngineEvent }[];
  /**
   * Deletes ended runs that ended before `endedBefore`, and then the oldest ones until what is left takes at most
   * `characters` of arguments, results and events. Returns how many went.
   */
  prune(limits: { endedBefore: number; characters: number }): number;
}
interface HistoryStart {
  execution_id: string;
  /** `graph:external:<command id>` or `graph:local:<execution id>`. */
  channel: string;
  command_id: string | null;
  project_id: string | null;
  graph_session_id: string | null;
  slug: string;
  agent_name: string | null;
  arguments_json: string;
  started_at: number;
}
export interface FinishedRun {
  execution_id: string;
  outcome: RunOutcome;
  finished_at: number;
}
export interface HistoryEntry extends HistoryStart {
  status: "running" | RunOutcome["status"];
  result_json: string | null;
  error: string | null;
  total_tokens: number | null;
  reported_cost: number | null;
  finished_before_stop: boolean;
  finished_at: number | null;
}

/** What `graph-relay call` is asking for, so that a lost answer is asked for again with the same key. */
export interface CallStore {
  /** The key of the intent with this fingerprint: the one it has, or this new one. */
  open(fingerprint: string, newKey: string): string;
  /** The server has answered; the next same call is a new one. */
  close(fingerprint: string): void;
  /** The agent's sign-in at an endpoint: its registration and its tokens, as JSON texts. */
  login(serverUrl: string): AgentLogin;
  saveLogin(serverUrl: string, login: Partial<AgentLogin>): void;
  /** Forgets tokens, if they still are these: another process may hold newer ones. */
  dropTokens(serverUrl: string, tokens: string): void;
}
export interface AgentLogin {
  client: string | null;
  tokens: string | null;
}

/** What the owner set for each Graph. */
export interface SettingsStore {
  /** What was set; what is left out takes its default. */
  of(graphSessionId: string): Partial<GraphSettings>;
  /** Lets a Graph's tools reach into a folder. `path` is absolute. Folders keep the order they were first granted in. */
  grantFolder(graphSessionId: string, path: string, write: boolean): void;
  revokeFolder(graphSessionId: string, path: string): boolean;
  setApproval(graphSessionId: string, tool: string, setting: GraphSettings["approvals"][string]): void;
  /** Takes the tool's own default again. */
  clearApproval(graphSessionId: string, tool: string): boolean;
  /** Sets limits, in place of those set before under the same names. */
  setLimits(graphSessionId: string, limits: Partial<Omit<GraphSettings, "folders" | "approvals">>): void;
}

/** Questions to the owner: put by the process that runs a Graph, answered from any other. */
export interface ApprovalStore {
  /** Returns the question's number. It is waited for once `keepAlive` says so. */
  ask(question: NewQuestion): number;
  /** The asker is there, and will say so again before `until`; a question whose asker was killed goes with that. */
  keepAlive(n: number, until: number): void;
  /** Those that are waited for, oldest first. `now` decides which are past their time. */
  open(now: number): Question[];
  /** Answers it, if it is still waited for. `always` also sets the tool to allow for that Graph. */
  answer(n: number, answer: ApprovalAnswer, by: string, now: number): boolean;
  /** The answer, once there is one. */
  answerTo(n: number): { answer: ApprovalAnswer; by: string } | undefined;
  /** Nobody waits any more. */
  withdraw(n: number): void;
}
export type ApprovalAnswer = "once" | "run" | "always" | "refused";
interface NewQuestion {
  execution_id: string;
  run_id: string;
  /** The Graph's slug. */
  graph: string;
  tool: string;
  request: string;
  asked_at: number;
  expires_at: number;
}
export interface Question extends NewQuestion {
  n: number;
}
