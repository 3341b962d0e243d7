import { type Dice, dice } from "./dice.ts";

/** How often each kind of fault strikes at one point, such as `{ lost: 0.05, doubled: 0.01 }`. */
export type Rates = Readonly<Record<string, number>>;

/**
 * Decides, at every point where the world can go wrong, whether it does. A decision depends on the seed
 * and on which occurrence of which point it is, on nothing else; it has a name, by which a shortened history
 * keeps it.
 */
export class Faults {
  readonly #seed: number;
  readonly #rates: Readonly<Record<string, Rates>>;
  readonly #only: ReadonlySet<string> | undefined;
  readonly #counts = new Map<string, number>();
  /** Names of the faults that struck, such as `reply.laptop-1#17:lost`. */
  readonly struck: string[] = [];
  /** No fault strikes while this is false. */
  active = true;

  constructor(seed: number, rates: Readonly<Record<string, Rates>>, only: ReadonlySet<string> | undefined) {
    this.#seed = seed;
    this.#rates = rates;
    this.#only = only;
  }

  /** The fault that strikes now at `point` on the side of `who`, if any, and dice for its details. */
  strike(point: string, who: string): { kind: string; dice: Dice } | undefined {
    const rates = this.#rates[point];
    if (rates === undefined || !this.active) return undefined;
    const place = `${point}.${who}`;
    const n = (this.#counts.get(place) ?? 0) + 1;
    this.#counts.set(place, n);
    const draw = dice(this.#seed, place, n);
    let rest = draw.next();
    for (const kind in rates) {
      rest -= rates[kind] as number;
      if (rest >= 0) continue;
      const name = `${place}#${n}:${kind}`;
      if (this.#only !== undefined && !this.#only.has(name)) return undefined;
      this.struck.push(name);
      return { kind, dice: draw };
    }
    return undefined;
  }
}
