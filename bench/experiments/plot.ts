/** One plot: bars, steps of a distribution, or points, with what the write-up published beside ours. */
const WIDTH = 640;
const HEIGHT = 320;
const LEFT = 190;
const TOP = 40;
const OURS = "#1f6feb";
const PUBLISHED = "#8b949e";

/** Where the names of neighbouring points stand, so that they do not cover one another. */
const LABELS = [-8, 16, -22];

const xml = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

/** Horizontal bars: for each name the write-up's value, if it has one, above ours. */
export function bars(
  title: string,
  unit: string,
  rows: readonly { name: string; published: number | null; ours: number }[],
): string {
  const most = Math.max(...rows.flatMap((row) => [row.published ?? 0, row.ours]));
  const step = 34;
  const scale = (value: number) => ((WIDTH - LEFT - 70) * value) / most;
  const bar = (y: number, value: number, fill: string) =>
    `<rect x="${LEFT}" y="${y}" width="${scale(value).toFixed(1)}" height="12" fill="${fill}"/>` +
    `<text x="${(LEFT + scale(value) + 5).toFixed(1)}" y="${y + 10}">${value} ${unit}</text>`;
  const body = rows.map((row, i) => {
    const y = TOP + i * step;
    const published = row.published === null ? "" : bar(y, row.published, PUBLISHED);
    return `<text x="${LEFT - 8}" y="${y + 17}" text-anchor="end">${xml(row.name)}</text>${published}${bar(y + 14, row.ours, OURS)}`;
  });
  return svg(title, TOP + rows.length * step + 20, body);
}

/** Points in a plane, the write-up's hollow and ours filled, each with its name. */
export function points(
  title: string,
  axes: readonly [x: string, y: string],
  rows: readonly {
    name: string;
    published: readonly [number, number] | null;
    ours: readonly [number, number];
  }[],
): string {
  const all = rows.flatMap((row) => [row.ours, row.published ?? row.ours]);
  const [mostX, mostY] = [Math.max(...all.map(([x]) => x)), Math.max(...all.map(([, y]) => y))];
  const x = (value: number) => 60 + ((WIDTH - 260) * value) / mostX;
  const y = (value: number) => HEIGHT - 40 - ((HEIGHT - 90) * value) / mostY;
  const at = ([a, b]: readonly [number, number]) => `cx="${x(a).toFixed(1)}" cy="${y(b).toFixed(1)}"`;
  const body = rows.map(
    ({ name, published, ours }, i) =>
      (published
        ? `<circle ${at(published)} r="7" fill="none" stroke="${PUBLISHED}" stroke-width="2"/>`
        : "") +
      `<circle ${at(ours)} r="4" fill="${OURS}"/>` +
      `<text x="${(x(ours[0]) + 10).toFixed(1)}" y="${(y(ours[1]) + (LABELS[i % LABELS.length] ?? 0)).toFixed(1)}">${xml(name)}</text>`,
  );
  body.push(
    `<line x1="60" y1="${y(0)}" x2="${WIDTH - 190}" y2="${y(0)}" stroke="#d0d7de"/>`,
    `<line x1="60" y1="${y(0)}" x2="60" y2="${TOP}" stroke="#d0d7de"/>`,
    `<text x="${WIDTH - 190}" y="${y(0) + 25}" text-anchor="end">${xml(axes[0])} (to ${mostX})</text>`,
    `<text x="65" y="${TOP - 4}">${xml(axes[1])} (to ${mostY})</text>`,
  );
  return svg(title, HEIGHT, body);
}

function svg(title: string, height: number, body: readonly string[]): string {
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" font-family="sans-serif" font-size="11">`,
    `<title>${xml(title)}</title>`,
    `<rect width="${WIDTH}" height="${height}" fill="#ffffff"/>`,
    `<text x="12" y="20" font-size="14">${xml(title)}</text>`,
    `<text x="${WIDTH - 12}" y="20" text-anchor="end" fill="${PUBLISHED}">the write-up</text>`,
    `<text x="${WIDTH - 90}" y="20" text-anchor="end" fill="${OURS}">ours</text>`,
    ...body,
    "</svg>\n",
  ].join("\n");
}
