/** Whether a version comes before another (semver.org section 11, without comparing pre-releases with each other). */
export function isOlder(version: string, than: string): boolean {
  const [a, b] = [parts(version), parts(than)];
  for (const i of [0, 1, 2] as const) {
    const [x, y] = [a.numbers[i] ?? 0, b.numbers[i] ?? 0];
    if (x !== y) return x < y;
  }
  return a.pre && !b.pre;
}

function parts(version: string): { numbers: number[]; pre: boolean } {
  const [core = "", ...pre] = version.split("+")[0]?.split("-") ?? [];
  return { numbers: core.split(".").map(Number), pre: pre.length > 0 };
}
