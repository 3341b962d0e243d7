import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/**
 * Runs statements on the endpoint's D1 through wrangler. They go through a file, so that nothing of them
 * shows in the process list. Answers wrangler's words if they failed.
 */
export function executeOnD1(sql: readonly string[], place: readonly string[]): string | undefined {
  const folder = mkdtempSync(join(tmpdir(), "graph-relay-"));
  try {
    const file = join(folder, "statements.sql");
    writeFileSync(file, `${sql.join(";\n")};\n`, { mode: 0o600 });
    execFileSync("wrangler", ["d1", "execute", "DB", ...place, "--yes", "--file", file], {
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...process.env, WRANGLER_SEND_METRICS: "false" },
    });
    return undefined;
  } catch (error) {
    return error instanceof Error && "stderr" in error ? String(error.stderr) : String(error);
  } finally {
    rmSync(folder, { recursive: true });
  }
}
