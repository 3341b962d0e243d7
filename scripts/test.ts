import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

// `npm test`: every check and every test, then one line that counts them.

const results = join(tmpdir(), `graph-relay-tests-${process.pid}.json`);

function run(title: string, command: string, args: string[]): boolean {
  console.log(`\n── ${title}`);
  return spawnSync(command, args, { stdio: "inherit" }).status === 0;
}

const checked = run("types, format, lint, dead code", "npm", ["run", "--silent", "check"]);
const tested = run("tests", "vitest", [
  "run",
  "--reporter=default",
  "--reporter=json",
  `--outputFile.json=${results}`,
  ...process.argv.slice(2),
]);

// Without results the tests did not even begin; what stopped them is said above.
const counts = existsSync(results)
  ? (JSON.parse(readFileSync(results, "utf8")) as { numPassedTests: number; numFailedTests: number })
  : { numPassedTests: 0, numFailedTests: 0 };
rmSync(results, { force: true });

const passed = counts.numPassedTests + (checked ? 1 : 0);
// A suite that could not be loaded holds no failed test, and fails all the same.
const broken = !tested && counts.numFailedTests === 0 ? 1 : 0;
const failed = counts.numFailedTests + broken + (checked ? 0 : 1);
console.log(`\n${passed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
