import { readFile } from "node:fs/promises";
import type { EnginePorts } from "../ports.ts";

const LOOK_MILLISECONDS = 1_000;
/** Beside its heap a process of Node needs this much, code and stacks included. */
const OVERHEAD_BYTES = 200_000_000;
/** The unit of /proc/PID/statm on every Linux that Node is built for by default. */
const PAGE_BYTES = 4_096;

/** The memory a process has in use, in bytes; undefined where nobody tells, as outside of Linux. */
export async function residentBytes(pid: number): Promise<number | undefined> {
  if (process.platform !== "linux") return undefined;
  const statm = await readFile(`/proc/${pid}/statm`, "utf8").catch(() => "");
  const pages = Number(statm.split(" ")[1]);
  return Number.isFinite(pages) && statm !== "" ? pages * PAGE_BYTES : undefined;
}

/**
 * Looks every second at what a process uses, since Node's own limit is of the heap and not of buffers. Calls `tooMuch`
 * once. Returns what ends the looking.
 */
export function watchMemory(
  { clock, processes }: Pick<EnginePorts, "clock" | "processes">,
  pid: number,
  megabytes: number,
  tooMuch: () => void,
): () => void {
  let ended = false;
  let cancel = (): void => {};
  const look = async (): Promise<void> => {
    const bytes = await processes.residentBytes(pid);
    if (ended) return;
    if (bytes !== undefined && bytes > megabytes * 1_000_000 + OVERHEAD_BYTES) tooMuch();
    else cancel = clock.after(LOOK_MILLISECONDS, () => void look());
  };
  cancel = clock.after(LOOK_MILLISECONDS, () => void look());
  return () => {
    ended = true;
    cancel();
  };
}
