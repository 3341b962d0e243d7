/** A stream of pseudo-random draws. Equal keys give equal streams, whatever else was drawn before. */
export interface Dice {
  /** Uniform in [0, 1). */
  next(): number;
  /** A whole number in [low, high]. */
  int(low: number, high: number): number;
  chance(probability: number): boolean;
  pick<T>(items: readonly T[]): T;
  bytes(length: number): Uint8Array;
  /** A draw from the normal distribution with mean 0 and deviation 1. */
  normal(): number;
}

/**
 * The stream named by `key`, such as `dice(seed, "latency", 17)`. Every use has its own name, so that
 * leaving out one event of a history (shrinking) does not change the draws of all the others.
 */
export function dice(...key: readonly (string | number)[]): Dice {
  let [a, b, c, d] = hash(key.join("\u0000"));
  // sfc32: passes PractRand, 32-bit arithmetic only, so the same in every engine.
  const word = (): number => {
    const t = (a + b + d) | 0;
    d = (d + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = ((c << 21) | (c >>> 11)) + t;
    return t >>> 0;
  };
  for (let i = 0; i < 12; i++) word();
  const next = () => word() / 4294967296;
  return {
    next,
    int: (low, high) => low + Math.floor(next() * (high - low + 1)),
    chance: (probability) => next() < probability,
    pick: <T>(items: readonly T[]): T => {
      if (items.length === 0) throw new Error("nothing to pick from");
      return items[Math.floor(next() * items.length)] as T;
    },
    bytes: (length) => {
      const out = new Uint8Array(length);
      for (let i = 0; i < length; i++) out[i] = word() & 0xff;
      return out;
    },
    normal: () => Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next()),
  };
}

/** Four 32-bit words of a text: FNV-1a with four offsets, each stirred at the end (murmur3's finalizer). */
function hash(text: string): [number, number, number, number] {
  const words: [number, number, number, number] = [0x811c9dc5, 0x9e3779b9, 0x85ebca6b, 0xc2b2ae35];
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    for (let w = 0; w < 4; w++) words[w] = Math.imul((words[w] as number) ^ (c + w), 0x01000193);
  }
  return words.map((word) => {
    let h = word ^ (word >>> 16);
    h = Math.imul(h, 0x85ebca6b);
    h ^= h >>> 13;
    h = Math.imul(h, 0xc2b2ae35);
    return h ^ (h >>> 16);
  }) as [number, number, number, number];
}
