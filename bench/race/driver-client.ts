import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { Place } from "./contestant.ts";
import type { Order, ProfiledRound } from "./driver.ts";
import type { RoundOptions } from "./round.ts";
import type { RoundResult } from "./stats.ts";

/** A contestant in its own process. */
export interface Driver {
  fill(total: number): Promise<void>;
  round(options: RoundOptions): Promise<RoundResult>;
  profile(options: RoundOptions): Promise<ProfiledRound>;
  stop(): Promise<void>;
}

/** Starts the process for `module` (a path beside this file) and lets it open its contestant. */
export async function startDriver(module: string, place: Place, nodeArgs: string[] = []): Promise<Driver> {
  const child = fork(fileURLToPath(new URL("./driver.ts", import.meta.url)), [], {
    execArgv: ["--disable-warning=ExperimentalWarning", ...nodeArgs],
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  const stop = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const gone = once(child, "exit");
    if (child.connected) child.disconnect();
    await gone;
  };
  try {
    await order(child, { do: "open", module, place });
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    fill: async (total) => void (await order(child, { do: "fill", total })),
    round: (options) => order(child, { do: "round", options }) as Promise<RoundResult>,
    profile: (options) => order(child, { do: "profile", options }) as Promise<ProfiledRound>,
    stop,
  };
}

/** One order at a time. */
function order(child: ChildProcess, what: Order): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const exited = (code: number | null) =>
      reject(new Error(`The driver ended with ${code} during "${what.do}".`));
    child.once("exit", exited);
    child.once("message", (answer: { value?: unknown; error?: string }) => {
      child.off("exit", exited);
      if (answer.error === undefined) resolve(answer.value);
      else reject(new Error(answer.error));
    });
    child.send(what);
  });
}
