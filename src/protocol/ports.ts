/** The server's time. Rules never ask the platform for it, so tests and the simulator can move it. */
export interface Clock {
  /** Milliseconds since the Unix epoch. */
  now(): number;
}

/** Where every random value comes from: the platform's generator, or a seeded one in the simulator. */
export interface RandomSource {
  /** `length` uniformly random bytes. */
  bytes(length: number): Uint8Array;
}

/** The platform's clock. */
export const systemClock: Clock = { now: () => Date.now() };

/** The platform's cryptographic generator. */
export const systemRandom: RandomSource = {
  bytes: (length) => crypto.getRandomValues(new Uint8Array(length)),
};
