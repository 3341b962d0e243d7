import { difference, type Experiment, type Figure } from "./figure.ts";
import { bars, points } from "./plot.ts";

const value = (shown: number | string | null, unit: Figure["unit"]): string => {
  if (shown === null) return "";
  return typeof shown === "number" && unit !== "" ? `${shown.toLocaleString("en")} ${unit}` : String(shown);
};

/** An experiment's figures as a table in Markdown, the product's own below the write-up's. */
export function table({ figures, own = [] }: Experiment): string {
  const row = (f: Figure) =>
    `| ${f.what} | ${value(f.published, f.unit)} | ${value(f.ours, f.unit)} | ${difference(f)} |`;
  return [
    "| | the write-up | ours | difference |",
    "| --- | --- | --- | --- |",
    ...figures.map(row),
    ...own.map(row),
  ].join("\n");
}

/** The plots, by file name. */
export function plots(experiments: readonly Experiment[]): Map<string, string> {
  const find = (name: string): Figure[] => {
    const found = experiments.find((e) => e.name === name);
    return found ? [...found.figures, ...(found.own ?? [])] : [];
  };
  const asBars = (figures: readonly Figure[]) =>
    figures.flatMap(({ what, published, ours }) =>
      typeof ours === "number"
        ? [{ name: what, published: typeof published === "number" ? published : null, ours }]
        : [],
    );
  const polling = find("polling");
  const strategies = polling
    .filter((f) => f.what.endsWith(": calls, mean"))
    .map((calls) => {
      const name = calls.what.replace(": calls, mean", "");
      const late = polling.find((f) => f.what === `${name}: noticed late, mean`);
      const pair = (a: unknown, b: unknown) => [Number(a), Number(b)] as const;
      return {
        name,
        published: calls.published === null ? null : pair(calls.published, late?.published),
        ours: pair(calls.ours, late?.ours),
      };
    });
  return new Map([
    ["pickup.svg", bars("From the ticket to the start", "s", asBars(find("pickup")))],
    ["fan-out.svg", bars("Several runs queued at once", "s", asBars(find("fan-out")))],
    [
      "polling.svg",
      points("What a way of asking costs, and what it gives", ["calls a run", "seconds late"], strategies),
    ],
    [
      "cancel.svg",
      bars(
        "From the cancel of a running Graph to its end",
        "s",
        asBars(find("cancel").filter((f) => f.what.includes("running: terminal"))),
      ),
    ],
    [
      "idempotency.svg",
      bars(
        "Runs queued for 200 that were wanted",
        "",
        asBars(find("idempotency").filter((f) => f.unit === "runs")),
      ),
    ],
    [
      "offline.svg",
      bars("Back online after 600 s", "s", asBars(find("offline").filter((f) => f.unit === "s"))),
    ],
  ]);
}

/** A page with each table between its markers: `<!-- experiment: NAME -->` and `<!-- end -->`. Throws if a name has no table. */
export function withTables(page: string, experiments: readonly Experiment[]): string {
  return page.replace(/(<!-- experiment: (\S+) -->\n)[\s\S]*?(<!-- end -->)/g, (_all, begin, name, end) => {
    const experiment = experiments.find((e) => e.name === name);
    if (!experiment) throw new Error(`there is no experiment named ${name}`);
    return `${begin}${table(experiment)}\n${end}`;
  });
}
