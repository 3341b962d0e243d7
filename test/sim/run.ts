import type { RelayModules } from "./actors/laptop.ts";
import { dice } from "./core/dice.ts";
import { importProduct } from "./core/loader.ts";
import { replacePlatform } from "./core/platform.ts";
import { Killed } from "./laptop/process.ts";
import { drawScenario } from "./scenario/scenario.ts";
import { loadWorker } from "./server/server.ts";
import { installSockets } from "./server/sockets.ts";
import { type Modules, type RunOptions, type RunResult, World } from "./world.ts";

export type Simulate = (seed: number, options?: Partial<RunOptions>) => Promise<RunResult>;

/**
 * Loads the product into this thread, whose platform it replaces for good. The loader is installed by the
 * caller, with the mutations if there are any.
 */
export async function prepare(): Promise<Simulate> {
  const enter = replacePlatform();
  installSockets();
  const modules: Modules = { worker: await loadWorker(), relay: await loadRelay() };
  return async (seed, { busy = false, trace = false, only } = {}) => {
    const options: RunOptions = { busy, trace, only };
    const world = new World(drawScenario(seed, busy), modules, options);
    enter({ scheduler: world.scheduler, random: dice(seed, "platform") });
    const onRejection = (error: unknown) => {
      // Code of a process that is dead has no one to tell.
      if (error instanceof Killed) return;
      const what = String((error as Error)?.stack ?? error);
      world.broken("the world goes on", `a rejection that nobody handles: ${what}`);
    };
    process.on("unhandledRejection", onRejection);
    // What the product reports on the console is part of the history, not of the screen.
    const { error, warn, log } = console;
    const record = (...words: unknown[]) => world.history.add("console", words.map(String).join(" "));
    Object.assign(console, { error: record, warn: record, log: record });
    try {
      return await world.run(options);
    } finally {
      Object.assign(console, { error, warn, log });
      process.off("unhandledRejection", onRejection);
    }
  };
}

async function loadRelay(): Promise<RelayModules> {
  const load = (path: string) => importProduct(`relay-cli/${path}`) as Promise<object>;
  const parts = await Promise.all(["relay/loop.ts", "store/index.ts", "store/migrate.ts"].map(load));
  return Object.assign({}, ...parts) as RelayModules;
}
