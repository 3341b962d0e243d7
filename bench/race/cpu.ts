import { readdir, readFile } from "node:fs/promises";

/** Milliseconds of processor time so far, user's and system's. */
export interface CpuTime {
  callers: number;
  servers: number;
}

/** Linux counts in hundredths of a second (`getconf CLK_TCK`, 100 on every architecture Node runs on). */
const TICK_MS = 10;

/** This process's time, and that of the trees of processes below `servers`, children that ended included. */
export async function cpuMs(servers: readonly number[]): Promise<CpuTime> {
  const own = process.cpuUsage();
  const callers = (own.user + own.system) / 1000;
  if (servers.length === 0 || process.platform !== "linux") return { callers, servers: 0 };
  const all = await processes();
  const tree = new Set(servers);
  for (let grown = true; grown; ) {
    grown = false;
    for (const { pid, parent } of all) {
      if (!tree.has(parent) || tree.has(pid)) continue;
      tree.add(pid);
      grown = true;
    }
  }
  const ticks = all.filter(({ pid }) => tree.has(pid)).reduce((sum, p) => sum + p.ticks, 0);
  return { callers, servers: ticks * TICK_MS };
}

async function processes(): Promise<{ pid: number; parent: number; ticks: number }[]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const stats = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/stat`, "utf8").catch(() => "")));
  return stats.flatMap((stat, i) => {
    // The command's name stands in parentheses and may hold anything; proc(5) counts the fields after it from 3.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    if (fields.length < 15) return [];
    const ticks = [14, 15, 16, 17].reduce((sum, field) => sum + Number(fields[field - 3]), 0);
    return [{ pid: Number(pids[i]), parent: Number(fields[1]), ticks }];
  });
}
