import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { gzipSync } from "node:zlib";
import { expect, it } from "vitest";
import { run } from "../../scripts/lib/processes.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const LIMIT_KB = 400;

it(`the Worker deploys as it is, in a bundle below ${LIMIT_KB} kB gzipped`, async () => {
  const out = mkdtempSync(join(tmpdir(), "graph-relay-bundle-"));
  try {
    const wrangler = join(ROOT, "node_modules/.bin/wrangler");
    const said = await run(wrangler, ["deploy", "--dry-run", "--outdir", out], {
      cwd: ROOT,
      env: { ...process.env, WRANGLER_SEND_METRICS: "false", CI: "true" },
    });
    expect(said).toContain("--dry-run: exiting now.");
    const code = readdirSync(out).filter((name) => name.endsWith(".js") || name.endsWith(".sql"));
    expect(code.length).toBeGreaterThan(0);
    const kB = gzipSync(Buffer.concat(code.map((name) => readFileSync(join(out, name))))).length / 1000;
    console.log(`The Worker's bundle: ${kB.toFixed(0)} kB gzipped`);
    expect(kB).toBeLessThan(LIMIT_KB);
  } finally {
    rmSync(out, { recursive: true });
  }
});
