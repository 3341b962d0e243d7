import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Entry } from "./contestants.ts";
import { type Driver, startDriver } from "./driver-client.ts";
import type { Server } from "./servers.ts";

/** The contestants of one race, each in its own process over an empty store. */
export interface Stable {
  drivers: ReadonlyMap<string, Driver>;
  /** What the servers say they are. */
  versions: Record<string, string>;
  /** Ends all that was started and deletes what it stored. */
  end(): Promise<void>;
}

const SIGNALS = ["SIGINT", "SIGTERM"] as const;

/** Starts `entries`. What was started is ended again if one of them cannot be. */
export async function startStable(entries: readonly Entry[]): Promise<Stable> {
  // Not the folder for temporary files, which may be in memory, where syncing costs nothing.
  const folder = mkdtempSync("/var/tmp/graph-relay-race-");
  // PostgreSQL runs as another user, and must get through to its own folder.
  chmodSync(folder, 0o711);
  const servers: Server[] = [];
  const drivers = new Map<string, Driver>();
  const versions: Record<string, string> = {};
  const endAll = async () => {
    for (const signal of SIGNALS) process.off(signal, interrupted);
    for (const driver of drivers.values()) await driver.stop();
    for (const server of servers) await server.stop();
    rmSync(folder, { recursive: true, force: true });
  };
  let ending: Promise<void> | undefined;
  const end = () => {
    ending ??= endAll();
    return ending;
  };
  const interrupted = () => void end().finally(() => process.exit(130));
  for (const signal of SIGNALS) process.once(signal, interrupted);
  try {
    for (const { name, module, server: start } of entries) {
      const server = await start?.(folder);
      if (server) {
        servers.push(server);
        versions[name] = server.version;
      }
      const place = { port: server?.port ?? 0, pid: server?.pid ?? 0, folder: join(folder, name) };
      drivers.set(name, await startDriver(module, place));
    }
  } catch (error) {
    await end();
    throw error;
  }
  return { drivers, versions, end };
}
