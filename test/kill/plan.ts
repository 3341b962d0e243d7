import { type Dice, dice } from "../sim/core/dice.ts";
import type { CallKind, TreatmentName } from "../support/chaos-proxy.ts";
import { TREATMENTS } from "../support/chaos-proxy.ts";
import type { KillAt } from "./kill-switch.ts";
import type { Wish } from "./world.ts";

/** When to strike: at a statement of the relay's, at a call of the relay's, or at a time. */
export type Moment =
  | ({ at: "statement" } & KillAt)
  | { at: "call"; kind: CallKind; when: (typeof WHENS)[number]; delay_ms: number }
  | { at: "time"; ms: number };

/** One random kill: who, when, and what is going on. */
export interface Plan {
  victim: "relay" | "endpoint" | "both";
  /** Which laptop it is about. */
  relay: number;
  moment: Moment;
  wishes: Wish[];
  /** Has the first run cancelled so long after its ticket. */
  cancel_after_ms?: number;
  /** Something the network does besides. */
  noise?: { kind: CallKind; treatment: TreatmentName };
  /** The wake sockets are cut once the runs are asked for. */
  cut_sockets: boolean;
  /** The next kill comes before this one is mended. */
  chained: boolean;
}

const WHENS = ["before", "half-way in", "in flight", "after"] as const;
const KINDS = ["token", "sync", "start", "complete", "complete", "control"] as const;
/** Statements, by a text that they hold, and how many of them a relay makes about that starts, runs a Graph or two and reports. */
const STATEMENTS: readonly [text: string, most: number][] = [
  ["", 90],
  ["", 90],
  ["INSERT INTO", 12],
  ["UPDATE ", 8],
  ["COMMIT", 6],
  ["DELETE FROM", 5],
];
const NOISE = (Object.keys(TREATMENTS) as TreatmentName[]).filter((name) => name !== "413");

/** The kill of this number in the history of this seed. */
export function planOf(seed: string, n: number, laptops: number): Plan {
  const roll = dice(seed, n);
  const victim = roll.pick(["relay", "relay", "relay", "endpoint", "both"] as const);
  const moment = momentOf(roll, victim);
  const wishes = Array.from({ length: roll.int(1, 2) }, () => wishOf(roll));
  if (moment.at === "call" && moment.kind === "control") wishes[0] = { ms: roll.int(3_100, 3_600) };
  return {
    victim,
    relay: roll.int(0, laptops - 1),
    moment,
    wishes,
    ...(roll.chance(0.15) ? { cancel_after_ms: roll.int(0, 800) } : {}),
    ...(roll.chance(0.2) ? { noise: { kind: roll.pick(KINDS), treatment: roll.pick(NOISE) } } : {}),
    cut_sockets: roll.chance(0.1),
    chained: roll.chance(0.5),
  };
}

function momentOf(roll: Dice, victim: Plan["victim"]): Moment {
  const at = roll.pick(
    victim === "relay" ? (["statement", "statement", "call", "time"] as const) : (["call", "time"] as const),
  );
  if (at === "statement") {
    const [text, most] = roll.pick(STATEMENTS);
    return { at, texts: [text], nth: roll.int(1, most), when: roll.pick(["before", "after"] as const) };
  }
  if (at === "time") return { at, ms: roll.int(0, 1_800) };
  const kind = roll.chance(0.05) ? "control" : roll.pick(["token", "sync", "start", "complete"] as const);
  return { at, kind, when: roll.pick(WHENS), delay_ms: roll.int(0, 12) };
}

const wishOf = (roll: Dice): Wish => ({
  ms: roll.pick([0, 0, 50, 200, 600]),
  ...(roll.chance(0.15) ? { fails: true } : {}),
  characters: roll.pick([0, 100, 20_000, 120_000]),
});
