import type { Scheduler, Timer } from "../core/scheduler.ts";
import { type BeforeWrite, Evicted, ObjectDisk, objectStorage } from "./object-storage.ts";
import type { SimulatedSocket } from "./sockets.ts";

/** An object's code while it is in memory. */
interface Instance {
  fetch(request: Request): Promise<Response>;
  alarm(): Promise<void>;
}
export type ObjectClass = new (context: unknown, env: unknown) => Instance;

/** What may happen to a call or an alarm of an object. */
export interface ObjectWeather {
  /** Milliseconds there and back; `evict`: the process goes before or after the work; `slow` calls take long. */
  call(name: string): { there: number; back: number; evict?: "before" | "after" };
  /** Whether the process goes right before this write. */
  write(name: string, statement: string): boolean;
  /** Milliseconds that an alarm is late, and whether it is delivered twice. */
  alarm(name: string): { late: number; doubled: boolean };
}

/** One life of an object: from when something needed it to its eviction. */
interface Life {
  readonly instance: Instance;
  alive: boolean;
  /** What its constructor waits for before any call. */
  readonly ready: Promise<unknown>;
  /** Ends every call that waits for this life. */
  readonly abandon: Set<(error: Error) => void>;
}

/** Alarms that failed are tried again this often, from 2 s on, each time after twice as long. */
const ALARM_RETRIES = 6;

interface Home {
  readonly name: string;
  readonly disk: ObjectDisk;
  readonly sockets: SimulatedSocket[];
  life: Life | undefined;
  timer: Timer | undefined;
}

/**
 * The platform's side of Durable Objects: finds or makes the one object of a name, brings it into memory
 * when something calls it, delivers its alarm at least once, and takes it out of memory at any time.
 */
export class ObjectHost {
  readonly #scheduler: Scheduler;
  readonly #class: ObjectClass;
  readonly #weather: ObjectWeather;
  readonly #homes = new Map<string, Home>();
  /** Given to every object as its bindings. */
  env: unknown;
  /** Called once for a new object, before its code runs. */
  onNew: ((name: string, disk: ObjectDisk) => void) | undefined;

  constructor(scheduler: Scheduler, objectClass: ObjectClass, weather: ObjectWeather) {
    this.#scheduler = scheduler;
    this.#class = objectClass;
    this.#weather = weather;
  }

  get disks(): ReadonlyMap<string, ObjectDisk> {
    return new Map([...this.#homes].map(([name, home]) => [name, home.disk]));
  }

  /** The namespace binding, as the Worker has it. */
  namespace() {
    const stub = (name: string) =>
      new Proxy({} as Record<string, unknown>, {
        get: (_target, method) => {
          if (typeof method !== "string" || method === "then") return undefined;
          return (...values: unknown[]) => this.call(name, method, values);
        },
      });
    return {
      getByName: stub,
      idFromName: (name: string) => ({ name, toString: () => name }),
      get: (id: { name: string }) => stub(id.name),
    };
  }

  /** One request to an object. Rejects if its process goes before the answer is out. */
  async call(name: string, method: string, values: readonly unknown[]): Promise<unknown> {
    const weather = this.#weather.call(name);
    const sent = method === "fetch" ? values : structuredClone(values);
    await this.#scheduler.sleep(weather.there);
    if (weather.evict === "before") {
      this.evict(name);
      throw new Evicted();
    }
    const answer = await this.#inside(name, async (instance) => {
      const work = (instance as unknown as Record<string, (...v: unknown[]) => unknown>)[method];
      if (typeof work !== "function") throw new TypeError(`The object has no method ${method}`);
      return work.apply(instance, [...sent]);
    });
    if (weather.evict === "after") {
      this.evict(name);
      throw new Evicted();
    }
    if (weather.back > 0) await this.#scheduler.sleep(weather.back);
    return method === "fetch" ? answer : structuredClone(answer);
  }

  /** Takes an object out of memory. Hibernating sockets stay open if `sockets` is `keep`. */
  evict(name: string, sockets: "keep" | "close" = "close"): void {
    const home = this.#homes.get(name);
    const life = home?.life;
    if (home === undefined || life === undefined) return;
    home.life = undefined;
    life.alive = false;
    home.disk.loseTurn();
    this.#arm(home);
    for (const abandon of life.abandon) abandon(new Evicted());
    if (sockets === "close") for (const socket of [...home.sockets]) socket.drop();
  }

  /** Ends the turn of every object: called after each step of the world. */
  endTurns(): void {
    for (const { disk } of this.#homes.values()) disk.endTurn();
  }

  close(): void {
    for (const home of this.#homes.values()) {
      home.timer?.cancel();
      home.disk.close();
    }
  }

  /** Runs `work` in the object's memory, and stops waiting for it when that memory is gone. */
  async #inside(name: string, work: (instance: Instance) => Promise<unknown>): Promise<unknown> {
    const home = this.#home(name);
    home.life ??= this.#begin(home);
    const life = home.life;
    let abandon: (error: Error) => void = () => {};
    const gone = new Promise<never>((_resolve, reject) => {
      abandon = reject;
      life.abandon.add(reject);
    });
    try {
      // No answer leaves before what was written for it is on the disk: the platform's output gate.
      const answer = life.ready.then(() => work(life.instance)).finally(() => this.#scheduler.sleep(0));
      return await Promise.race([answer, gone]);
    } finally {
      life.abandon.delete(abandon);
    }
  }

  #home(name: string): Home {
    let home = this.#homes.get(name);
    if (home === undefined) {
      home = { name, disk: new ObjectDisk(), sockets: [], life: undefined, timer: undefined };
      this.#homes.set(name, home);
      this.onNew?.(name, home.disk);
    }
    return home;
  }

  #begin(home: Home): Life {
    const alive = { now: true };
    const guard = () => {
      if (!alive.now) throw new Evicted();
    };
    const beforeWrite: BeforeWrite = (statement) => {
      if (!this.#weather.write(home.name, statement)) return;
      this.evict(home.name);
      // An object that is still being made is no life yet.
      alive.now = false;
      home.disk.loseTurn();
      throw new Evicted();
    };
    const storage = objectStorage(home.disk, guard, beforeWrite, () => this.#arm(home));
    const blocks: Promise<unknown>[] = [];
    const context = this.#context(home, storage, (block) => {
      blocks.push(block);
      // A constructor that fails takes its object down with it.
      block.catch(() => this.evict(home.name));
    });
    const abandon = new Set<(error: Error) => void>();
    const instance = new this.#class(context, this.env);
    const life: Life = {
      instance,
      abandon,
      ready: Promise.all(blocks),
      get alive() {
        return alive.now;
      },
      set alive(value) {
        alive.now = value;
      },
    };
    return life;
  }

  #context(home: Home, storage: unknown, blocks: (block: Promise<unknown>) => void) {
    return {
      id: { name: home.name, toString: () => home.name },
      storage,
      waitUntil: () => {},
      blockConcurrencyWhile: (work: () => Promise<unknown>) => {
        const block = work();
        blocks(block);
        return block;
      },
      acceptWebSocket: (socket: SimulatedSocket, tags: string[] = []) => {
        socket.tags = tags;
        home.sockets.push(socket);
        socket.onForget = () => home.sockets.splice(home.sockets.indexOf(socket), 1);
      },
      getWebSockets: (tag?: string) => home.sockets.filter((s) => tag === undefined || s.tags.includes(tag)),
      getTags: (socket: SimulatedSocket) => socket.tags,
      setWebSocketAutoResponse: () => {},
      getWebSocketAutoResponseTimestamp: () => null,
      abort: () => {
        this.evict(home.name);
        throw new Evicted();
      },
    };
  }

  #arm(home: Home): void {
    home.timer?.cancel();
    const due = home.disk.alarm;
    if (due === null) return;
    const { late, doubled } = this.#weather.alarm(home.name);
    home.timer = this.#scheduler.at(due + late, () => void this.#ring(home, doubled, 0));
  }

  async #ring(home: Home, doubled: boolean, tries: number): Promise<void> {
    home.disk.alarm = null;
    try {
      await this.#inside(home.name, (instance) => instance.alarm());
    } catch {
      if (tries >= ALARM_RETRIES) return;
      const again = () => void this.#ring(home, doubled, tries + 1);
      home.timer?.cancel();
      home.timer = this.#scheduler.after(2_000 * 2 ** tries, again);
      return;
    }
    if (doubled) await this.#inside(home.name, (instance) => instance.alarm()).catch(() => {});
  }
}
