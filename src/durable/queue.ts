import { DEFAULT_SETTINGS, type ProjectSettings } from "../protocol/limits.ts";
import type { Clock } from "../protocol/ports.ts";
import { takeLists, takeVersion } from "./access.ts";
import { cancel, getRun, presence } from "./agent-calls.ts";
import { claimKey, findKey, releaseKey } from "./claims.ts";
import { complete } from "./complete.ts";
import type { DeviceRefusal, ProjectAccess, ProjectQueueApi } from "./contract.ts";
import { connect, isDevice } from "./devices.ts";
import { Effects, type QueueHost } from "./effects.ts";
import { enqueue } from "./enqueue.ts";
import { listRuns } from "./owner-view.ts";
import { Presences } from "./presence.ts";
import { control, start } from "./running.ts";
import { meta } from "./schema.ts";
import { type Db, type Scope, statements } from "./scope.ts";
import { beginSet, storeDigest, sync } from "./sync.ts";
import { applyTime, nextDue, purge } from "./time.ts";

const stored = statements((db) => db.select({ settings: meta.settings }).from(meta).prepare());

type Call<K extends keyof ProjectQueueApi> = (
  request: Parameters<ProjectQueueApi[K]>[0],
) => Awaited<ReturnType<ProjectQueueApi[K]>>;

/**
 * A project's queue: the rules of design sections 3 and 4 over tables that exist (`migrate`). Synchronous
 * and without I/O of its own, so the same code runs in the object and, over `node:sqlite`, in the
 * simulator. Each call is one transaction that begins with what time has done; its effects are told to the
 * host once it is committed. What the calls mean is said in `contract.ts`.
 */
export class Queue {
  readonly #db: Db;
  readonly #clock: Clock;
  readonly #host: QueueHost;
  readonly #presences: Presences;

  /** `isConnected`: whether a device has its wake socket open, if the host has such sockets. */
  constructor(
    db: Db,
    clock: Clock,
    host: QueueHost,
    isConnected: (device_id: string) => boolean = () => false,
  ) {
    this.#db = db;
    this.#clock = clock;
    this.#host = host;
    this.#presences = new Presences(clock.now(), isConnected);
  }

  applyAccess(access: ProjectAccess): void {
    this.#transact((begin) => {
      if (takeVersion(this.#db, access)) takeLists(begin(), access);
    });
  }

  readonly enqueue: Call<"enqueue"> = (request) => this.#call((scope) => enqueue(scope, request));
  readonly findKey: Call<"findKey"> = (request) => this.#call((scope) => findKey(scope, request));
  readonly claimKey: Call<"claimKey"> = (request) => this.#call((scope) => claimKey(scope, request));
  readonly releaseKey: Call<"releaseKey"> = (request) => this.#call((scope) => releaseKey(scope, request));
  /** Answers at once; waiting is the host's. */
  readonly getRun = (request: { agent_id: string; command_id: string }) =>
    this.#call((scope) => getRun(scope, request));
  readonly cancel: Call<"cancel"> = (request) => this.#call((scope) => cancel(scope, request));
  readonly presence: Call<"presence"> = (request) => this.#call((scope) => presence(scope, request));
  readonly listRuns: Call<"listRuns"> = (request) => this.#call((scope) => listRuns(scope, request));
  readonly sync: Call<"sync"> = (request) => this.#call((scope) => sync(scope, request));
  readonly beginSet: Call<"beginSet"> = (request) => this.#call((scope) => beginSet(scope, request));
  readonly storeDigest: Call<"storeDigest"> = (request) => this.#call((scope) => storeDigest(scope, request));
  readonly start: Call<"start"> = (request) => this.#call((scope) => start(scope, request));
  readonly control: Call<"control"> = (request) => this.#call((scope) => control(scope, request));
  readonly complete: Call<"complete"> = (request) => this.#call((scope) => complete(scope, request));

  /** A device opens its wake socket; the socket itself is the host's. */
  readonly connect = (request: { device_id: string }): { ok: true } | DeviceRefusal =>
    this.#call((scope) => connect(scope, request));

  /** Whether the device is on the list. */
  isListed(device_id: string): boolean {
    return isDevice({ db: this.#db }, device_id);
  }

  /** What the alarm does: what time has done, and one bounded batch of deletions. Arm it again at `nextAlarm`. */
  onAlarm(): void {
    this.#call(purge);
  }

  /** When time next changes something, in milliseconds since the epoch; in the past if more is due already. */
  nextAlarm(): number | null {
    return nextDue(this.#db);
  }

  #call<T>(rule: (scope: Scope) => T): T {
    return this.#transact((begin) => rule(begin()));
  }

  #transact<T>(work: (begin: () => Scope) => T): T {
    const effects = new Effects();
    const value = this.#db.transaction(() =>
      work(() => {
        const scope = {
          db: this.#db,
          now: this.#clock.now(),
          settings: this.#settings(),
          presences: this.#presences,
          effects,
        };
        applyTime(scope);
        return scope;
      }),
    );
    effects.tell(this.#host);
    return value;
  }

  #settings(): ProjectSettings {
    const row = stored({ db: this.#db }).get();
    if (!row) throw new Error("the queue was not told who may use it");
    // A setting that is newer than what is stored has its default.
    return { ...DEFAULT_SETTINGS, ...JSON.parse(row.settings) };
  }
}
