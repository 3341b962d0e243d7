// Runs on whatever Node the machine has (20 or newer): installs what is missing, then hands over to the
// project's own Node, which the `node` package brings.
import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const stamp = join(root, "node_modules", ".installed-lock");
const node = join(root, "node_modules", "node", "bin", "node");
const lock = createHash("sha256")
  .update(readFileSync(join(root, "package-lock.json")))
  .digest("hex");

const installed = existsSync(node) && existsSync(stamp) && readFileSync(stamp, "utf8") === lock;
if (!installed) {
  console.error("Installing packages (the first time takes a minute or a few) …");
  const install = spawnSync(
    "npm",
    ["ci", "--no-audit", "--no-fund", "--loglevel=error", "--fetch-retries=6", "--fetch-timeout=600000"],
    { cwd: root, stdio: ["ignore", "inherit", "inherit"], shell: process.platform === "win32" },
  );
  if (install.status !== 0) {
    console.error("npm could not install the packages; its message is above. Mend that and start again.");
    process.exit(1);
  }
  writeFileSync(stamp, lock);
}

const [script, ...rest] = process.argv.slice(2);
const child = spawn(node, [join(root, script), ...rest], {
  cwd: root,
  stdio: "inherit",
  env: {
    ...process.env,
    PATH: [dirname(node), join(root, "node_modules", ".bin"), process.env.PATH].join(delimiter),
  },
});
// The script ends in its own order; a signal from the terminal reaches it anyway.
process.on("SIGINT", () => {});
process.on("SIGTERM", () => child.kill("SIGTERM"));
child.on("close", (code) => process.exit(code ?? 1));
