// Two kinds of plot, drawn by hand: enough for a page, and the same bytes for the same figures.

const WIDTH = 760;
const HEIGHT = 380;
const LEFT = 70;
const RIGHT = 190;
const TOP = 46;
const BOTTOM = 44;
const COLOURS = ["#0b6e4f", "#6bbf59", "#2f6db5", "#c0392b", "#8e6c8a"];

interface Series {
  name: string;
  /** One value for each of the plot's positions; NaN: none. */
  values: number[];
}

export interface Plot {
  title: string;
  /** What the positions are, and each one's label. */
  axis: string;
  positions: string[];
  series: Series[];
}

/** Lines over the positions, the values on a logarithmic scale. */
export function lines(plot: Plot): string {
  const scale = scaleOf(plot);
  const x = (i: number) => LEFT + ((i + 0.5) * (WIDTH - LEFT - RIGHT)) / plot.positions.length;
  const marks = plot.series.map((series, s) => {
    const points = series.values.flatMap((v, i) => (Number.isNaN(v) ? [] : [[x(i), scale(v)] as const]));
    const path = points.map(([px, py]) => `${px.toFixed(1)},${py.toFixed(1)}`).join(" ");
    const dots = points
      .map(([px, py]) => `<circle cx="${px.toFixed(1)}" cy="${py.toFixed(1)}" r="3.5"/>`)
      .join("");
    return `<g fill="${colour(s)}"><polyline points="${path}" fill="none" stroke="${colour(s)}" stroke-width="2"/>${dots}</g>`;
  });
  return frame(plot, scale, marks.join("\n"));
}

/** Bars beside one another at each position, the values on a logarithmic scale. */
export function bars(plot: Plot): string {
  const scale = scaleOf(plot);
  const group = (WIDTH - LEFT - RIGHT) / plot.positions.length;
  const bar = (group * 0.8) / plot.series.length;
  const marks = plot.series.map((series, s) =>
    series.values
      .map((v, i) => {
        if (Number.isNaN(v)) return "";
        const left = LEFT + i * group + group * 0.1 + s * bar;
        const top = scale(v);
        const height = HEIGHT - BOTTOM - top;
        const label = `<text x="${(left + bar / 2).toFixed(1)}" y="${(top - 4).toFixed(1)}" text-anchor="middle" font-size="10">${Math.round(v)}</text>`;
        return `<rect x="${left.toFixed(1)}" y="${top.toFixed(1)}" width="${(bar - 2).toFixed(1)}" height="${height.toFixed(1)}" fill="${colour(s)}"/>${label}`;
      })
      .join(""),
  );
  return frame(plot, scale, marks.join("\n"));
}

const colour = (s: number): string => COLOURS[s % COLOURS.length] ?? "#000";

const decades = (plot: Plot): [number, number] => {
  const all = plot.series.flatMap((s) => s.values).filter((v) => v > 0);
  return [Math.floor(Math.log10(Math.min(...all))), Math.ceil(Math.log10(Math.max(...all)))];
};

/** Value to height, by powers of ten. */
function scaleOf(plot: Plot): (value: number) => number {
  const [low, high] = decades(plot);
  const span = Math.max(1, high - low);
  return (value) => HEIGHT - BOTTOM - ((Math.log10(value) - low) / span) * (HEIGHT - TOP - BOTTOM);
}

function frame(plot: Plot, scale: (value: number) => number, marks: string): string {
  const [low, high] = decades(plot);
  const grid = Array.from({ length: high - low + 1 }, (_, i) => 10 ** (low + i)).map((v) => {
    const y = scale(v).toFixed(1);
    return `<line x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${y}" y2="${y}" stroke="#ddd"/><text x="${LEFT - 8}" y="${y}" dy="4" text-anchor="end">${v.toLocaleString("en-US")}</text>`;
  });
  const step = (WIDTH - LEFT - RIGHT) / plot.positions.length;
  const labels = plot.positions.map(
    (label, i) =>
      `<text x="${(LEFT + (i + 0.5) * step).toFixed(1)}" y="${HEIGHT - BOTTOM + 18}" text-anchor="middle">${label}</text>`,
  );
  const legend = plot.series.map((series, s) => {
    const y = TOP + 8 + s * 20;
    return `<rect x="${WIDTH - RIGHT + 14}" y="${y - 9}" width="11" height="11" fill="${colour(s)}"/><text x="${WIDTH - RIGHT + 31}" y="${y}">${series.name}</text>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="sans-serif" font-size="12" fill="#222">
<rect width="${WIDTH}" height="${HEIGHT}" fill="#fff"/>
<text x="${LEFT}" y="24" font-size="15">${plot.title}</text>
${grid.join("\n")}
${marks}
${labels.join("")}
<text x="${(LEFT + WIDTH - RIGHT) / 2}" y="${HEIGHT - 8}" text-anchor="middle">${plot.axis}</text>
${legend.join("\n")}
</svg>
`;
}
