// What every contestant carries: plausible JSON text, the same bytes for each.

const WORDS =
  "ledger invoice harbour quarter signal margin station copper window orchard ribbon paper engine valley " +
  "bridge lantern anchor meadow timber basket cellar garden market mirror needle pepper pocket rocket";

/** A megabyte of words and numbers that squeezes about as well as prose does. */
const POOL = pool(1 << 20);

function pool(length: number): string {
  const words = WORDS.split(" ");
  const parts: string[] = [];
  let state = 1;
  for (let made = 0; made < length; ) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    const part = `${words[(state >>> 16) % words.length]}${(state >>> 8) % 97} `;
    parts.push(part);
    made += part.length;
  }
  return parts.join("").slice(0, length);
}

/** A stretch of the pool; another for another seed. */
function text(length: number, seed: number): string {
  const from = (seed * 7919) % (POOL.length - length);
  return POOL.slice(from, from + length);
}

const ARGUMENTS_BYTES = 1_000;
const RESULT_BYTES = 2_000;

/** A run's arguments: 1 kB of JSON that names its key. Keys hold nothing that JSON escapes. */
export function argumentsJson(key: string, seed: number): string {
  const head = `{"key":"${key}","prompt":"`;
  return `${head}${text(ARGUMENTS_BYTES - head.length - 2, seed)}"}`;
}

/** A run's result: 2 kB of JSON that names its key. */
export function resultJson(key: string, seed: number): string {
  const head = `{"key":"${key}","summary":"`;
  return `${head}${text(RESULT_BYTES - head.length - 2, seed + 7)}"}`;
}

export function keyOf(json: string): string {
  return (JSON.parse(json) as { key: string }).key;
}
