import { DurableObject } from "cloudflare:workers";
import { drizzle } from "drizzle-orm/durable-sqlite";
import { LIMITS } from "../protocol/limits.ts";
import { systemClock } from "../protocol/ports.ts";
import type { DeviceRefusal, ProjectAccess, ProjectQueueApi } from "./contract.ts";
import { isSetUp, migrate } from "./migrate.ts";
import bundle from "./migrations/migrations.js";
import { Queue } from "./queue.ts";
import { waitsNoMore } from "./view.ts";
import { Waiters } from "./waiters.ts";

type Request<K extends keyof ProjectQueueApi> = Parameters<ProjectQueueApi[K]>[0];

const UNKNOWN: DeviceRefusal = { ok: false, error: "project_not_found" };
const NO_ACCESS = { ok: false, error: "access_removed" } as const;

/**
 * One project's object: its storage, its alarm and the calls that wait, around the rules in `Queue`. Any
 * name makes an object, so one that was never given its lists holds nothing and answers as for something
 * unknown.
 */
export class ProjectQueue extends DurableObject implements ProjectQueueApi {
  #queue: Queue | undefined;
  /** When the alarm is set for; setting it costs a row, so it is only ever moved earlier. */
  #alarmAt: number | null = null;
  readonly #waiters = new Waiters((run, milliseconds) => {
    const timer = setTimeout(run, milliseconds);
    return () => clearTimeout(timer);
  });

  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    super(ctx, env);
    if (!isSetUp(ctx.storage)) return;
    migrate(ctx.storage, bundle);
    const queue = this.#newQueue();
    this.#queue = queue;
    ctx.blockConcurrencyWhile(async () => {
      this.#alarmAt = await ctx.storage.getAlarm();
      // Never without an alarm while something waits for one, whatever became of the last.
      if (this.#alarmAt === null) this.#armFor(queue.nextAlarm());
    });
  }

  async applyAccess(access: ProjectAccess): Promise<void> {
    if (this.#queue) return this.#queue.applyAccess(access);
    const queue = this.#newQueue();
    this.ctx.storage.transactionSync(() => {
      migrate(this.ctx.storage, bundle);
      queue.applyAccess(access);
    });
    this.#queue = queue;
  }

  async destroy(): Promise<void> {
    this.#queue = undefined;
    this.#alarmAt = null;
    this.#waiters.wakeAll();
    await this.ctx.storage.deleteAll();
  }

  async enqueue(request: Request<"enqueue">) {
    return this.#queue?.enqueue(request) ?? NO_ACCESS;
  }

  async claimKey(request: Request<"claimKey">) {
    return this.#queue?.claimKey(request) ?? NO_ACCESS;
  }

  async releaseKey(request: Request<"releaseKey">): Promise<void> {
    this.#queue?.releaseKey(request);
  }

  async getRun({ wait_ms, ...request }: Request<"getRun">) {
    const run = this.#queue?.getRun(request);
    const wait = Math.min(wait_ms, LIMITS.waitSecondsMax * 1000);
    if (!run || waitsNoMore(run) || !(wait > 0)) return run;
    await this.#waiters.wait(request.agent_id, request.command_id, wait);
    return this.#queue?.getRun(request);
  }

  async cancel(request: Request<"cancel">) {
    return this.#queue?.cancel(request);
  }

  async presence(request: Request<"presence">) {
    return this.#queue?.presence(request);
  }

  async listRuns(request: Request<"listRuns">) {
    return this.#queue?.listRuns(request) ?? [];
  }

  async sync(request: Request<"sync">) {
    return this.#queue?.sync(request) ?? UNKNOWN;
  }

  async beginSet(request: Request<"beginSet">) {
    return this.#queue?.beginSet(request) ?? UNKNOWN;
  }

  async storeDigest(request: Request<"storeDigest">) {
    return this.#queue?.storeDigest(request) ?? UNKNOWN;
  }

  async start(request: Request<"start">) {
    return this.#queue?.start(request) ?? UNKNOWN;
  }

  async control(request: Request<"control">) {
    return this.#queue?.control(request) ?? UNKNOWN;
  }

  async complete(request: Request<"complete">) {
    return this.#queue?.complete(request) ?? UNKNOWN;
  }

  override async alarm(): Promise<void> {
    // What throws is tried again by the platform, and nothing moves the alarm meanwhile.
    this.#queue?.onAlarm();
    this.#alarmAt = null;
    this.#armFor(this.#queue?.nextAlarm() ?? null);
  }

  #newQueue(): Queue {
    return new Queue(drizzle(this.ctx.storage), systemClock, {
      changed: (command_id) => this.#waiters.wake(command_id),
      // The device's next pass finds it; a socket that saves the device that wait would be told here.
      wake: () => {},
      due: (at) => this.#armFor(at),
    });
  }

  /** Not awaited: the platform holds every answer back until the alarm is stored. */
  #armFor(at: number | null): void {
    if (at === null || (this.#alarmAt !== null && this.#alarmAt <= at)) return;
    this.#alarmAt = at;
    void this.ctx.storage.setAlarm(at);
  }
}
