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
import { WakeSockets } from "./wake-sockets.ts";

type RequestOf<K extends keyof ProjectQueueApi> = Parameters<ProjectQueueApi[K]>[0];

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

  readonly #sockets: WakeSockets;

  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    super(ctx, env);
    this.#sockets = new WakeSockets(ctx);
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
    if (this.#queue) {
      this.#queue.applyAccess(access);
      this.#sockets.closeRemoved((device_id) => this.#queue?.isListed(device_id) === true);
      return;
    }
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
    this.#sockets.closeAll();
    await this.ctx.storage.deleteAll();
  }

  async enqueue(request: RequestOf<"enqueue">) {
    return this.#queue?.enqueue(request) ?? NO_ACCESS;
  }

  async findKey(request: RequestOf<"findKey">) {
    return this.#queue?.findKey(request);
  }

  async claimKey(request: RequestOf<"claimKey">) {
    return this.#queue?.claimKey(request) ?? NO_ACCESS;
  }

  async releaseKey(request: RequestOf<"releaseKey">): Promise<void> {
    this.#queue?.releaseKey(request);
  }

  async getRun({ wait_ms, ...request }: RequestOf<"getRun">) {
    const run = this.#queue?.getRun(request);
    const wait = Math.min(wait_ms, LIMITS.waitSecondsMax * 1000);
    if (!run || waitsNoMore(run) || !(wait > 0)) return run;
    await this.#waiters.wait(request.agent_id, request.command_id, wait);
    return this.#queue?.getRun(request);
  }

  async cancel(request: RequestOf<"cancel">) {
    return this.#queue?.cancel(request);
  }

  async presence(request: RequestOf<"presence">) {
    return this.#queue?.presence(request);
  }

  async listRuns(request: RequestOf<"listRuns">) {
    return this.#queue?.listRuns(request) ?? [];
  }

  async sync(request: RequestOf<"sync">) {
    return this.#queue?.sync(request) ?? UNKNOWN;
  }

  async beginSet(request: RequestOf<"beginSet">) {
    return this.#queue?.beginSet(request) ?? UNKNOWN;
  }

  async storeDigest(request: RequestOf<"storeDigest">) {
    return this.#queue?.storeDigest(request) ?? UNKNOWN;
  }

  async start(request: RequestOf<"start">) {
    return this.#queue?.start(request) ?? UNKNOWN;
  }

  async control(request: RequestOf<"control">) {
    return this.#queue?.control(request) ?? UNKNOWN;
  }

  async complete(request: RequestOf<"complete">) {
    return this.#queue?.complete(request) ?? UNKNOWN;
  }

  /** The one call that is no RPC: the upgrade to a wake socket. Only the Worker can make it. */
  override async fetch(request: Request): Promise<Response> {
    const device_id = new URL(request.url).searchParams.get("device_id") ?? "";
    const found = this.#queue?.connect({ device_id }) ?? UNKNOWN;
    return found.ok ? this.#sockets.accept(device_id) : Response.json(found);
  }

  override webSocketMessage(socket: WebSocket, message: string | ArrayBuffer): void {
    this.#sockets.received(socket, message);
  }

  override webSocketClose(socket: WebSocket): void {
    this.#sockets.closed(socket);
  }

  override async alarm(): Promise<void> {
    // What throws is tried again by the platform, and nothing moves the alarm meanwhile.
    this.#queue?.onAlarm();
    this.#alarmAt = null;
    this.#armFor(this.#queue?.nextAlarm() ?? null);
  }

  #newQueue(): Queue {
    const host = {
      changed: (command_id: string) => this.#waiters.wake(command_id),
      // It leaves the object only once what it tells of is on the disk: the platform holds it back.
      wake: (device_id: string) => this.#sockets.wake(device_id),
      due: (at: number) => this.#armFor(at),
    };
    return new Queue(drizzle(this.ctx.storage), systemClock, host, (device_id) =>
      this.#sockets.isOpen(device_id),
    );
  }

  /** Not awaited: the platform holds every answer back until the alarm is stored. */
  #armFor(at: number | null): void {
    if (at === null || (this.#alarmAt !== null && this.#alarmAt <= at)) return;
    this.#alarmAt = at;
    void this.ctx.storage.setAlarm(at);
  }
}
