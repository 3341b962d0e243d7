import { join } from "node:path";
import { type Server, startPostgres, startRedis } from "./servers.ts";

/** Who takes part. */
export interface Entry {
  name: string;
  /** What tables and plots call it. */
  title: string;
  /** Its module, as the driver finds it. */
  module: string;
  /** Starts its server in a folder; left out by one that has none or starts its own. */
  server?: (folder: string) => Promise<Server>;
}

/** In the order of the tables. Ratios are to the first, and to the second. */
export const ENTRIES: readonly Entry[] = [
  { name: "served", title: "Graph Relay, as served", module: "./ours/served.ts" },
  { name: "rules", title: "Graph Relay, rules alone", module: "./ours/rules.ts" },
  {
    name: "graphile",
    title: "graphile-worker",
    module: "./rivals/graphile.ts",
    server: (folder) => startPostgres(join(folder, "postgres")),
  },
  {
    name: "bullmq",
    title: "BullMQ",
    module: "./rivals/bullmq.ts",
    server: (folder) => startRedis(join(folder, "redis")),
  },
];

export const titleOf = (name: string): string => ENTRIES.find((entry) => entry.name === name)?.title ?? name;
