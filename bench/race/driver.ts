import type { Contestant, OpenContestant, Place } from "./contestant.ts";
import { type RoundOptions, runRound } from "./round.ts";

// A contestant's own process, so that no library's garbage is collected on another's time. Told what to do
// by the race over the channel to its parent.

export type Order =
  | { do: "open"; module: string; place: Place }
  | { do: "fill"; total: number }
  | { do: "round"; options: RoundOptions }
  | { do: "end" };

let contestant: Contestant | undefined;

async function obey(order: Order): Promise<unknown> {
  if (order.do === "open") {
    const { openContestant } = (await import(order.module)) as { openContestant: OpenContestant };
    contestant = await openContestant(order.place);
    return undefined;
  }
  if (!contestant) throw new Error("not open");
  if (order.do === "fill") return contestant.fill(order.total);
  if (order.do === "end") return contestant.end?.();
  return runRound(contestant, order.options);
}

process.on("message", (order: Order) => {
  obey(order).then(
    (value) => process.send?.({ value }),
    (error: unknown) =>
      process.send?.({ error: error instanceof Error ? (error.stack ?? String(error)) : String(error) }),
  );
});
process.on("disconnect", () => process.exit());
