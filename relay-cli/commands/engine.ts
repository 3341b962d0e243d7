import { resolve } from "node:path";
import type { Engine } from "../engine/contract.ts";
import { createEngine } from "../engine/index.ts";
import { systemClock } from "../relay/system.ts";
import { createApprovalBroker } from "./approval-broker.ts";
import { engineConfigOf, readConfig } from "./config.ts";
import type { Context } from "./context.ts";

/** The engine, on this machine's saved Graphs, their settings and the owner's configuration. */
export function engineFor(context: Context): Engine {
  const { store, terminal, folder } = context;
  return createEngine({
    async settings({ slug }) {
      const graph = store.graphs.find(slug);
      return graph ? store.settings.of(graph.graph_session_id) : {};
    },
    async config() {
      return engineConfigOf(readConfig(folder));
    },
    async findGraph(slug) {
      const graph = store.graphs.find(slug);
      return graph && { slug: graph.slug, path: graph.path };
    },
    // This machine's key and the owner's own settings, wherever the owner granted.
    offLimits: ["state.db", "state.db-wal", "state.db-shm", "config.json"].map((name) =>
      resolve(folder, name),
    ),
    approvals: createApprovalBroker({
      approvals: store.approvals,
      now: systemClock.wall,
      sleep: systemClock.sleep,
      terminal,
    }),
  });
}

/** Notes the end of local runs that were killed, which nobody else will. */
export const closeDeadRuns = ({ store }: Context): void =>
  store.history.closeDead(isAlive, systemClock.wall());

function isAlive(processId: number): boolean {
  try {
    return process.kill(processId, 0);
  } catch (error) {
    // It is there, and another user's.
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** Forgets what the history may no longer keep, by age and by size. */
export function pruneHistory(context: Context): number {
  const { store, folder } = context;
  closeDeadRuns(context);
  const { keep_days, keep_megabytes } = readConfig(folder).history;
  return store.history.prune({
    endedBefore: systemClock.wall() - keep_days * 86_400_000,
    characters: keep_megabytes * 1_000_000,
  });
}

const PRUNE_MILLISECONDS = 3_600_000;

/** Prunes the history now and every hour. Returns what ends that. A failure is told and tried again. */
export function keepPruned(context: Context): () => void {
  const prune = (): void => {
    try {
      pruneHistory(context);
    } catch (error) {
      context.log.warn(`The history was not pruned: ${error instanceof Error ? error.message : error}`);
    }
  };
  prune();
  const timer = setInterval(prune, PRUNE_MILLISECONDS);
  timer.unref();
  return () => clearInterval(timer);
}
