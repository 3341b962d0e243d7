import type { RunResult } from "./world.ts";

/** Lines of a shortened history that are worth reading: not the passes that found nothing. */
const QUIET = /"sessions\\":\\"unchanged|→ POST \/sync|→ POST \/token|← 200 \/token|\/control /;
const LINES = 60;

/** A failing seed for people: what broke, what was enough to break it, how it went, how to see it again. */
export function describeFailure(
  { seed, result, kept = [] }: { seed: number; result: RunResult; kept?: string[] },
  busy = false,
): string {
  const told = result.lines.filter((line) => !QUIET.test(line));
  const broken = result.violations.map((v) => `  ${v.guarantee}: ${v.detail}`);
  return [
    `\nseed ${seed} breaks`,
    ...broken,
    `Enough for it: ${kept.join(", ") || "nothing at all"}`,
    ...told.slice(-LINES).map((line) => (line.length > 200 ? `${line.slice(0, 200)}…` : line)),
    `Again: npm run simulate -- --seed ${seed}${busy ? " --busy" : ""} --trace${kept.length > 0 ? ` --only "${kept.join(",")}"` : ""}`,
  ].join("\n");
}
