import { createHash } from "node:crypto";

/**
 * What happened, one line an event, in the order it happened. Two runs of one seed give the same lines;
 * the digest says so without keeping them.
 */
export class History {
  readonly #hash = createHash("sha256");
  readonly #start: number;
  readonly #now: () => number;
  readonly #keep: boolean;
  readonly lines: string[] = [];
  count = 0;

  constructor(now: () => number, keep: boolean) {
    this.#now = now;
    this.#start = now();
    this.#keep = keep;
  }

  /** `who` did or met `what`; `more` is written as JSON. */
  add(who: string, what: string, more?: unknown): void {
    const at = ((this.#now() - this.#start) / 1000).toFixed(3).padStart(10);
    const line = `${at}  ${who.padEnd(14)} ${what}${more === undefined ? "" : ` ${JSON.stringify(more)}`}`;
    this.#hash.update(line).update("\n");
    this.count++;
    if (this.#keep) this.lines.push(line);
  }

  /** The SHA-256 of all lines. Ends the history. */
  digest(): string {
    return this.#hash.digest("hex");
  }
}
