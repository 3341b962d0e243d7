import type { Contestant, OpenContestant, Place } from "./contestant.ts";
import { areaOf, type Spent, spent } from "./profile.ts";
import { ownProfiler } from "./profiler.ts";
import { type RoundOptions, runRound } from "./round.ts";
import type { RoundResult } from "./stats.ts";

// A contestant's own process, so that no library's garbage is collected on another's time. Told what to do
// by the race over the channel to its parent.

export type Order =
  | { do: "open"; module: string; place: Place }
  | { do: "fill"; total: number }
  | { do: "round"; options: RoundOptions }
  | { do: "profile"; options: RoundOptions };

export interface ProfiledRound {
  round: RoundResult;
  spent: Spent;
}

let contestant: Contestant | undefined;

async function obey(order: Order): Promise<unknown> {
  if (order.do === "open") {
    const { openContestant } = (await import(order.module)) as { openContestant: OpenContestant };
    contestant = await openContestant(order.place);
    return undefined;
  }
  if (!contestant) throw new Error("not open");
  if (order.do === "fill") return contestant.fill(order.total);
  if (order.do === "profile") return profiled(contestant, order.options);
  return runRound(contestant, order.options);
}

/** A round, and where the time went: of the contestant's own process, or of this one. */
async function profiled(of: Contestant, options: RoundOptions): Promise<ProfiledRound> {
  await of.profiler?.prepare();
  await runRound(of, { ...options, name: `${options.name}-warm` });
  const stop = await (of.profiler?.start ?? ownProfiler)();
  const round = await runRound(of, options);
  return { round, spent: spent(await stop(), areaOf, of.profiler?.sources()) };
}

/** Nobody is told once the race is over. */
function tell(answer: { value?: unknown; error?: string }): void {
  if (process.connected) process.send?.(answer);
}

process.on("message", (order: Order) => {
  obey(order).then(
    (value) => tell({ value }),
    (error: unknown) =>
      tell({ error: error instanceof Error ? (error.stack ?? error.message) : String(error) }),
  );
});
// A person's Ctrl-C reaches every process; this one waits for the race to end it.
process.on("SIGINT", () => {});
// The race is over, or is gone: nothing it started here may outlive it.
process.on("disconnect", () => {
  void Promise.resolve(contestant?.end?.()).finally(() => process.exit());
});
