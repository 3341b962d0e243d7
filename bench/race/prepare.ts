import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { postgresBin, redisBin } from "./servers.ts";

const here = fileURLToPath(new URL(".", import.meta.url));

/** Installs what the race needs and the product does not. Throws with what to do where it may not. */
export function prepare(): void {
  installPackages();
  const missing = [...(postgresBin() ? [] : ["postgresql"]), ...(redisBin() ? [] : ["redis-server"])];
  if (missing.length > 0) installServers(missing);
}

function installPackages(): void {
  const stamp = join(here, "node_modules", ".installed-lock");
  const lock = createHash("sha256")
    .update(readFileSync(join(here, "package-lock.json")))
    .digest("hex");
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === lock) return;
  console.error("Installing graphile-worker, BullMQ and their clients …");
  const install = spawnSync(
    "npm",
    ["ci", "--no-audit", "--no-fund", "--loglevel=error", "--ignore-scripts"],
    {
      cwd: here,
      stdio: ["ignore", "inherit", "inherit"],
    },
  );
  if (install.status !== 0) throw new Error("npm could not install bench/race; its message is above.");
  writeFileSync(stamp, lock);
}

/** Debian's servers, by apt. They are not to be started by their packages: the race starts its own. */
function installServers(packages: string[]): void {
  const byHand = `Install them by hand: apt-get install ${packages.join(" ")}`;
  if (process.getuid?.() !== 0 || spawnSync("apt-get", ["--version"]).status !== 0)
    throw new Error(`The race needs ${packages.join(" and ")}, and may not install them here. ${byHand}`);
  console.error(`Installing ${packages.join(" and ")} …`);
  const policy = "/usr/sbin/policy-rc.d";
  const ours = !existsSync(policy);
  if (ours) writeFileSync(policy, "#!/bin/sh\nexit 101\n", { mode: 0o755 });
  try {
    const apt = (...args: string[]) =>
      spawnSync("apt-get", ["-qq", ...args], {
        stdio: ["ignore", "ignore", "inherit"],
        env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
      }).status === 0;
    const install = ["install", "-y", "--no-install-recommends", ...packages];
    if (!apt(...install) && !(apt("update") && apt(...install)))
      throw new Error(`apt-get could not install ${packages.join(" and ")}; its message is above. ${byHand}`);
  } finally {
    if (ours) rmSync(policy);
  }
}
