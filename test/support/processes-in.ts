import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, readlinkSync } from "node:fs";

/** The processes that work in a folder or name it in their arguments. Without `/proc`, only the latter. */
export function processesIn(folder: string): string[] {
  if (!existsSync("/proc/self/cwd"))
    return execFileSync("ps", ["-eo", "pid=,args="], { encoding: "utf8" })
      .split("\n")
      .filter((line) => line.includes(folder));
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => {
      try {
        const args = readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
        return readlinkSync(`/proc/${pid}/cwd`).startsWith(folder) || args.includes(folder)
          ? [`${pid} ${args}`]
          : [];
      } catch {
        // It ended meanwhile.
        return [];
      }
    });
}
