import { createHash, randomBytes } from "node:crypto";
import type { Dice } from "./dice.ts";
import type { Scheduler } from "./scheduler.ts";

/**
 * Puts the world in the place of the platform for this thread: `Date`, timers, random values and
 * `crypto.subtle`, so that code which asks the platform instead of an injected port still sees simulated
 * time, and nothing waits for a thread or the operating system. The returned function sets the world.
 */
export function replacePlatform(): (world: { scheduler: Scheduler; random: Dice }) => void {
  let scheduler: Scheduler | undefined;
  let random: Dice | undefined;
  const world = (): Scheduler => {
    if (scheduler === undefined) throw new Error("no world is running");
    return scheduler;
  };
  const RealDate = Date;
  class WorldDate extends RealDate {
    constructor(...values: unknown[]) {
      if (values.length === 0 && scheduler !== undefined) super(Math.floor(scheduler.now));
      else super(...(values as []));
    }
    static override now(): number {
      return scheduler === undefined ? RealDate.now() : Math.floor(scheduler.now);
    }
  }
  const timers = new Map<number, () => void>();
  let number = 0;
  const set = (run: (...args: unknown[]) => void, milliseconds: number, args: unknown[], again: boolean) => {
    const id = ++number;
    const arm = () => {
      const timer = world().after(Number.isFinite(milliseconds) ? milliseconds : 0, () => {
        timers.delete(id);
        if (again) arm();
        run(...args);
      });
      timers.set(id, timer.cancel);
    };
    arm();
    // Node's timers are objects with these methods; `Number(timer)` names them as in browsers.
    const handle = {
      unref: () => handle,
      ref: () => handle,
      hasRef: () => true,
      [Symbol.toPrimitive]: () => id,
    };
    return handle;
  };
  const clear = (handle: unknown): void => {
    const id = Number(handle as number);
    timers.get(id)?.();
    timers.delete(id);
  };
  type Callback = (...args: unknown[]) => void;
  Object.assign(globalThis, {
    Date: WorldDate,
    setTimeout: (run: Callback, ms = 0, ...args: unknown[]) => set(run, ms, args, false),
    setInterval: (run: Callback, ms = 0, ...args: unknown[]) => set(run, ms, args, true),
    setImmediate: (run: Callback, ...args: unknown[]) => set(run, 0, args, false),
    clearTimeout: clear,
    clearInterval: clear,
    clearImmediate: clear,
  });
  Math.random = () => random?.next() ?? 0.5;
  replaceCrypto((length) => random?.bytes(length) ?? randomBytes(length));
  return (next) => {
    timers.clear();
    ({ scheduler, random } = next);
  };
}

function replaceCrypto(bytes: (length: number) => Uint8Array): void {
  const fill = (array: ArrayBufferView): ArrayBufferView => {
    new Uint8Array(array.buffer, array.byteOffset, array.byteLength).set(bytes(array.byteLength));
    return array;
  };
  const uuid = (): string => {
    const b = bytes(16);
    b[6] = ((b[6] as number) & 0x0f) | 0x40;
    b[8] = ((b[8] as number) & 0x3f) | 0x80;
    const h = Buffer.from(b).toString("hex");
    return `${h.slice(0, 8)}-${h.slice(8, 12)}-${h.slice(12, 16)}-${h.slice(16, 20)}-${h.slice(20)}`;
  };
  // SHA-256 is the platform's own, only without its thread.
  const digest = async (name: string, data: ArrayBufferView | ArrayBuffer): Promise<ArrayBuffer> => {
    const view = ArrayBuffer.isView(data)
      ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
      : new Uint8Array(data);
    const hash = createHash(name.replace("-", "").toLowerCase()).update(view).digest();
    return new Uint8Array(hash).buffer;
  };
  Object.defineProperty(globalThis.crypto, "getRandomValues", { value: fill });
  Object.defineProperty(globalThis.crypto, "randomUUID", { value: uuid });
  Object.defineProperty(globalThis.crypto.subtle, "digest", { value: digest });
  replaceSignatures();
}

/** A key of the stand-in for ECDSA: whoever has the public part can verify, as with the real one. */
interface WorldKey {
  readonly type: "private" | "public";
  readonly algorithm: { name: "ECDSA"; namedCurve: "P-256" };
  readonly extractable: boolean;
  readonly usages: string[];
  readonly x: string;
  readonly [Symbol.toStringTag]: "CryptoKey";
}

/**
 * ES256 without its threads and its random numbers: a signature is the SHA-512 of the public key and the
 * data. Nobody in the world forges one, and the length is the real one's.
 */
function replaceSignatures(): void {
  const importKey = async (_format: "jwk", jwk: { x?: string; d?: string }): Promise<WorldKey> => ({
    type: jwk.d === undefined ? "public" : "private",
    algorithm: { name: "ECDSA", namedCurve: "P-256" },
    extractable: true,
    usages: [jwk.d === undefined ? "verify" : "sign"],
    x: jwk.x ?? "",
    [Symbol.toStringTag]: "CryptoKey",
  });
  const signature = (key: WorldKey, data: Uint8Array): Uint8Array =>
    createHash("sha512").update(key.x).update(data).digest();
  Object.defineProperties(globalThis.crypto.subtle, {
    importKey: { value: importKey },
    sign: {
      value: async (_algorithm: unknown, key: WorldKey, data: Uint8Array) =>
        new Uint8Array(signature(key, data)).buffer,
    },
    verify: {
      value: async (_algorithm: unknown, key: WorldKey, given: Uint8Array, data: Uint8Array) =>
        Buffer.compare(signature(key, data), given) === 0,
    },
  });
}
