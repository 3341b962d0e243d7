/** Whether a relay's version is at least `minimum` (semantic versioning; a pre-release comes before its release). */
export function isSupported(version: string, minimum: string): boolean {
  const [have, need] = [parse(version), parse(minimum)];
  for (let i = 0; i < 3; i++) {
    const difference = (have.numbers[i] ?? 0) - (need.numbers[i] ?? 0);
    if (difference !== 0) return difference > 0;
  }
  return need.prerelease || !have.prerelease;
}

function parse(version: string): { numbers: number[]; prerelease: boolean } {
  const [core = ""] = version.split(/[-+]/);
  return { numbers: core.split(".").map(Number), prerelease: /^[\d.]+-/.test(version) };
}
