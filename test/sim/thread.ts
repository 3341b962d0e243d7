import { parentPort, workerData } from "node:worker_threads";
import { installLoader, type Mutation } from "./core/loader.ts";
import type { RunResult } from "./world.ts";

/** What a thread is started with: the mutations of its product, if there are any. */
export interface ThreadData {
  mutations: readonly Mutation[];
}
/** What it is asked to do, one after the other. */
export type Task = { seed: number; busy?: boolean; trace?: boolean; only?: string[]; shrink?: boolean };
/** What it answers: the result, and for `shrink` the names that are enough to break the same guarantee. */
export type Done = { seed: number; result: RunResult; kept?: string[] } | { failed: string };

const { mutations } = workerData as ThreadData;
const checkApplied = installLoader(mutations);
// Only now: whatever is imported from here on goes through the loader.
const { prepare } = await import("./run.ts");
const { shrink } = await import("./shrink.ts");
const simulate = await prepare();
checkApplied();

parentPort?.on("message", async ({ seed, busy = false, trace = false, only, shrink: shorten }: Task) => {
  try {
    const kept = shorten ? await shrink(simulate, seed, busy) : only;
    const names = kept === undefined ? undefined : new Set(kept);
    const result = await simulate(seed, { busy, trace: trace || shorten === true, only: names });
    parentPort?.postMessage({ seed, result, ...(kept ? { kept } : {}) } satisfies Done);
  } catch (error) {
    parentPort?.postMessage({ failed: String((error as Error).stack ?? error) } satisfies Done);
  }
});
parentPort?.postMessage("ready");
