// Bundles the package before it is packed: the protocol's code goes in, npm dependencies stay outside.
import { execFileSync } from "node:child_process";
import { readFileSync, rmSync } from "node:fs";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = dirname(fileURLToPath(import.meta.url));
const { dependencies } = JSON.parse(readFileSync(`${root}/package.json`, "utf8"));
const common = {
  absWorkingDir: root,
  outdir: "dist",
  bundle: true,
  platform: "node",
  format: "esm",
  target: "node22.18",
  legalComments: "none",
};

rmSync(`${root}/dist`, { recursive: true, force: true });
await build({
  ...common,
  entryPoints: { main: "main.ts", engine: "engine/index.ts" },
  external: Object.keys(dependencies),
  splitting: true,
});
// A Graph's process may read its own program alone: it is one file, dependencies and all.
await build({ ...common, entryPoints: { host: "engine/host/main.ts" } });
// Only written here; `npm run check` is what checks them.
execFileSync("tsc", ["-p", `${root}/tsconfig.types.json`, "--noCheck"], { stdio: "inherit" });
