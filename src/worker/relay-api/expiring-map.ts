/** A map of bounded size whose entries end at their time. When it is full, the oldest goes. */
export class ExpiringMap<Value> {
  readonly #entries = new Map<string, { value: Value; until: number }>();
  readonly #size: number;

  /** `size`: entries at most, one or more. */
  constructor(size: number) {
    this.#size = size;
  }

  /** The value, unless its time is over. `now` and `until` are in milliseconds of the same clock. */
  get(key: string, now: number): Value | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined || entry.until > now) return entry?.value;
    this.#entries.delete(key);
    return undefined;
  }

  set(key: string, value: Value, until: number): void {
    this.#entries.delete(key);
    for (const oldest of this.#entries.keys()) {
      if (this.#entries.size < this.#size) break;
      this.#entries.delete(oldest);
    }
    this.#entries.set(key, { value, until });
  }
}
