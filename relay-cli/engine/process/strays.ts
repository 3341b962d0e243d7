import { readdir, readFile } from "node:fs/promises";

/** The variable that every process of a group inherits, and whose value names the group. */
export const GROUP_VARIABLE = "GRAPH_RELAY_GROUP";

/**
 * The ids of processes that carry a group's mark though they may have left the group, as `setsid` and `spawn` with
 * `detached` make them. Linux tells; elsewhere nobody is found.
 */
export async function findMarked(mark: string): Promise<number[]> {
  if (process.platform !== "linux") return [];
  const entry = `${GROUP_VARIABLE}=${mark}`;
  const ids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const marked = await Promise.all(
    ids.map(async (id) => {
      // Others' processes cannot be read, and some end meanwhile.
      const environment = await readFile(`/proc/${id}/environ`, "utf8").catch(() => "");
      return environment.split("\0").includes(entry) ? [Number(id)] : [];
    }),
  );
  return marked.flat();
}
