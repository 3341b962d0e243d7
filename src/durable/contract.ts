import type { Completion } from "../protocol/completion.ts";
import type { ProjectSettings } from "../protocol/limits.ts";
import type {
  CompleteResponse,
  ControlRequest,
  ControlResponse,
  StartResponse,
  SyncCommand,
} from "../protocol/relay-api.ts";
import type { CancelAnswer, CommandState } from "../protocol/states.ts";

/**
 * What a project's object answers. Expected failures are values, never exceptions: custom errors do not
 * survive the way back to the Worker. Every call is one request to the object. Times are milliseconds of
 * the server's clock since the epoch.
 */
export interface ProjectQueueApi {
  /** Makes the object's own list of agents and devices that of D1. An older version than the one held changes nothing. Creates the tables of a new object; every other call on one without tables answers as for something unknown. */
  applyAccess(access: ProjectAccess): Promise<void>;
  /** Deletes all the object holds. The project is gone. */
  destroy(): Promise<void>;

  /** Queues one run, or finds the one this key already names. */
  enqueue(request: EnqueueRequest): Promise<EnqueueAnswer>;
  /** What the key names here: a run, or a claim. Writes nothing. */
  findKey(request: KeyRequest): Promise<KeyTaken | undefined>;
  /** Records that this key names a run that is, or is to be, in another project; from then on none is queued for it here. */
  claimKey(request: ClaimKeyRequest): Promise<ClaimKeyAnswer>;
  /** Lets a claim of `command_id` run out soon, unless another call has taken it up: its run was refused. */
  releaseKey(request: { agent_id: string; idempotency_key: string; command_id: string }): Promise<void>;
  /** The run, as soon as it ended or waits for its owner, at the latest after `wait_ms`. `undefined`: not there, or not this agent's. */
  getRun(request: { agent_id: string; command_id: string; wait_ms: number }): Promise<RunView | undefined>;
  /** Cancels a queued run, asks a running one to stop. `undefined`: not there, or not this agent's. */
  cancel(request: {
    agent_id: string;
    command_id: string;
  }): Promise<{ cancel: CancelAnswer; run: RunView } | undefined>;
  /** When each of the project's devices was last seen. */
  presence(request: { agent_id: string }): Promise<Record<string, Presence> | undefined>;

  /** The project's runs for its owner, newest first. `before`: the `seq` of the last one seen. `whole` adds arguments and outcomes. */
  listRuns(request: { before: number | null; limit: number; whole: boolean }): Promise<OwnerRun[]>;

  /** A device's pass: notes that it is there, says whether its set of sessions is the one stored, and what is queued for it. */
  sync(request: SyncCall): Promise<SyncAnswer | DeviceRefusal>;
  /** A set of the device is about to go to D1. The version orders it among the device's sets; no set is called the stored one until `storeDigest`. */
  beginSet(request: { device_id: string }): Promise<{ ok: true; set_version: number } | DeviceRefusal>;
  /** Records that D1 now holds the set with this digest. Does not win if a later set was begun since. */
  storeDigest(request: {
    device_id: string;
    sessions_digest: string;
    set_version: number;
  }): Promise<{ ok: true; won: boolean } | DeviceRefusal>;
  start(request: {
    device_id: string;
    command_id: string;
    attempt_id: string;
  }): Promise<Answer<StartResponse>>;
  control(
    request: { device_id: string; command_id: string } & ControlRequest,
  ): Promise<Answer<ControlResponse>>;
  complete(request: CompleteCall): Promise<Answer<CompleteResponse>>;
  /** Upgrades `wakeRequest` to the device's wake socket (status 101); otherwise the JSON of a `DeviceRefusal`. */
  fetch(request: Request): Promise<Response>;
}

/** The request that opens a device's wake socket at the object, whoever sent the one at the Worker. */
export const wakeRequest = (device_id: string): Request =>
  new Request(`https://project-queue/wake?${new URLSearchParams({ device_id })}`, {
    headers: { upgrade: "websocket" },
  });

/** Why a device's call was not served: it is not on the object's list, the project is unknown, or the command is not this device's. */
export interface DeviceRefusal {
  ok: false;
  error: "device_removed" | "project_not_found" | "command_not_found";
}
export type Answer<T> = { ok: true; value: T } | DeviceRefusal;

/** Who may use the project, as D1 has it at `version`. */
export interface ProjectAccess {
  project_id: string;
  /** Grows with each change in D1. */
  version: number;
  agents: { agent_id: string; name: string }[];
  devices: { device_id: string }[];
  settings: ProjectSettings;
}

export interface EnqueueRequest {
  agent_id: string;
  /** Made by the Worker for this project; not used if the key already names a run. */
  command_id: string;
  graph_session_id: string;
  device_id: string;
  slug: string;
  /** Canonical JSON, at most `LIMITS.argumentsCharacters`. */
  arguments_json: string;
  idempotency_key: string;
  /** Only finds the run that the key names already; nothing is queued. */
  repeat_only?: boolean;
}

export type EnqueueAnswer =
  | { ok: true; created: boolean; run: RunView }
  /** The key names another request: the earlier run. */
  | { ok: false; error: "key_conflict"; run: { command_id: string; status: CommandState } }
  /** The key is claimed here for another `command_id`, whose project has the run: ask `claimKey`, and queue there. */
  | { ok: false; error: "key_claimed"; command_id: string }
  /** To `repeat_only`: the key names no run. */
  | { ok: false; error: "new_key" }
  | { ok: false; error: "queue_full"; scope: "agent" | "project"; limit: number }
  /** The device shares nothing with this project any more: no pass of it need ever come for the run. */
  | { ok: false; error: "not_shared" }
  /** The agent, or the device, has no access here. */
  | { ok: false; error: "access_removed" };

export interface KeyRequest {
  agent_id: string;
  idempotency_key: string;
  graph_session_id: string;
}
export interface ClaimKeyRequest extends KeyRequest {
  /** What the key is to name. */
  command_id: string;
  /** A claim of this command gives way: it is known that it was not queued and never will be. */
  replaces?: string;
}
/** The key names another command: a run in this project (`age_ms` is null), or one that was claimed so long ago. */
export interface KeyTaken {
  ok: false;
  error: "key_taken";
  command_id: string;
  same_session: boolean;
  age_ms: number | null;
}
export type ClaimKeyAnswer =
  /** The key names `command_id` of the request. */
  | { ok: true }
  | KeyTaken
  /** The object was not told of its project yet, or its project is deleted. */
  | { ok: false; error: "access_removed" };

export interface Presence {
  online: boolean;
  last_seen_at: number | null;
}

/** A run as its agent may see it. */
export interface RunView {
  command_id: string;
  graph_session_id: string;
  device_id: string;
  status: CommandState;
  cancel_requested: boolean;
  /** 1 is next on its device; only while queued. */
  queue_position?: number;
  desktop: Presence;
  queued_at: number;
  started_at?: number;
  finished_at?: number;
  expires_at?: number;
  kept_until?: number;
  /** The JSON of the last `Progress` of a running command. */
  progress_json?: string;
  /** The JSON of the `Completion` it ended with. */
  outcome_json?: string;
  /** Why it was cancelled without its owner, its agent or its relay asking, for people to read. */
  reason?: string;
  late: boolean;
  finished_before_stop: boolean;
}

/** A run as the object keeps it, for the owner's eyes: the list of what ran, and the export of everything held. */
export interface OwnerRun {
  seq: number;
  command_id: string;
  agent_id: string;
  idempotency_key: string;
  graph_session_id: string;
  device_id: string;
  slug: string;
  state: CommandState;
  attempt_id: string | null;
  queued_at: number;
  expires_at: number;
  started_at: number | null;
  lease_until: number | null;
  finished_at: number | null;
  kept_until: number | null;
  cancel_requested_at: number | null;
  progress_json: string | null;
  reason: string | null;
  late: boolean;
  finished_before_stop: boolean;
  arguments_json?: string;
  outcome_json?: string | null;
  /** The last completion that did not become the outcome. */
  kept_out?: {
    times: number;
    last_at: number;
    attempt_id: string | null;
    execution_id: string;
    status: string;
  } | null;
}

export interface SyncCall {
  device_id: string;
  sessions_digest: string;
  /** When the device's token was issued; a newer one than the last leaves a lasting note that the device was there. */
  token_issued_at: number;
}
export interface SyncAnswer {
  ok: true;
  digest_matches: boolean;
  /** The version of the set that is on its way to D1, if one is: what was begun last. */
  set_version: number | null;
  /** `arguments_json` instead of the wire's `arguments`. */
  commands: (Omit<SyncCommand, "arguments"> & { arguments_json: string })[];
}

export interface CompleteCall {
  device_id: string;
  command_id: string;
  attempt_id?: string;
  /** Parsed and within bounds. */
  completion: Completion;
}
