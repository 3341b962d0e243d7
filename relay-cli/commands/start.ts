import { existsSync } from "node:fs";
import type { Command } from "commander";
import { InvalidArgumentError } from "commander";
import { LIMITS } from "../../src/protocol/limits.ts";
import { systemRandom } from "../../src/protocol/ports.ts";
import { CommandError, EXIT_CODES, type ExitName } from "../exit-codes.ts";
import { createRelay, type RelayEnd } from "../relay/loop.ts";
import { createSigner, systemClock, systemTransport } from "../relay/system.ts";
import { lockFolder } from "../store/lock.ts";
import { VERSION } from "../version.ts";
import { readConfig } from "./config.ts";
import { type Context, pairedDevice, refusal } from "./context.ts";
import { engineFor, keepPruned } from "./engine.ts";
import { watchEngine } from "./live-view.ts";

/** Sessions side by side at most: each Graph is a process of its own. */
const CONCURRENCY_MAX = 32;

export function addStart(
  program: Command,
  run: (body: (context: Context) => Promise<ExitName>) => Promise<void>,
) {
  program
    .command("start")
    .description("run what you have shared, when an agent asks for it")
    .option(
      "--concurrency <n>",
      `run up to n different Graphs side by side (1 to ${CONCURRENCY_MAX})`,
      count,
      1,
    )
    .option(
      "--poll-only",
      `look for work every ${LIMITS.pollSeconds} s only, without the socket that tells of it at once`,
      false,
    )
    .action((options: StartOptions) => run((context) => start(context, options)));
}

interface StartOptions {
  concurrency: number;
  pollOnly: boolean;
}

function count(value: string): number {
  const n = Number(value);
  if (Number.isInteger(n) && n >= 1 && n <= CONCURRENCY_MAX) return n;
  throw new InvalidArgumentError(`It must be a whole number from 1 to ${CONCURRENCY_MAX}.`);
}

/** Runs until a signal, or until the server will have no more of it. */
async function start(context: Context, options: StartOptions): Promise<ExitName> {
  const device = pairedDevice(context);
  // A broken configuration is said now, not at the first run.
  readConfig(context.folder);
  const lock = lockFolder(context.folder);
  if (!lock)
    throw new CommandError(
      "already_running",
      `A relay runs on ${context.folder} already. Stop that one first, or give this one a folder of its own with --state.`,
    );
  const view = watchEngine(engineFor(context), context.terminal, systemClock.monotonic);
  const relay = createRelay(
    {
      clock: systemClock,
      transport: systemTransport,
      random: systemRandom,
      store: context.store,
      engine: view.engine,
      signer: createSigner({ ...device, client_version: VERSION }),
      isReady: (graph) => existsSync(graph.path),
      log: context.log,
      // Loaded for this command alone.
      ...(options.pollOnly ? {} : { wakeSocket: (await import("../relay/wake-socket.ts")).systemWakeSocket }),
    },
    { serverUrl: device.server_url, clientVersion: VERSION, concurrency: options.concurrency },
  );
  const signals = handleSignals(context, relay);
  const stopPruning = keepPruned(context);
  try {
    context.terminal.say(
      `Connected as ${device.name} to ${device.server_url}. Ctrl-C stops after what runs now.`,
    );
    return verdict(context, await relay.run(), signals.count());
  } finally {
    view.stop();
    stopPruning();
    signals.stop();
    lock.release();
  }
}

function verdict(context: Context, end: RelayEnd, signals: number): ExitName {
  if (end.unsent > 0)
    context.terminal.say(
      `${end.unsent} outcome(s) could not be sent. They are kept, and the next start sends them.`,
    );
  // The relay has told why already.
  if (end.refused) return refusal(end.refused).exit;
  return signals > 1 ? "interrupted" : "done";
}

/** First signal: finish and send. Second: cancel what runs. Third: leave at once. */
function handleSignals(context: Context, relay: { drain(): void; cancel(): void }) {
  let count = 0;
  const onSignal = () => {
    count++;
    if (count === 1) {
      context.terminal.say("Stopping after what runs now. Once more cancels it.");
      relay.drain();
    } else if (count === 2) {
      context.terminal.say("Cancelling what runs. Once more leaves at once.");
      relay.cancel();
    } else process.exit(EXIT_CODES.interrupted[0]);
  };
  const names = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
  for (const name of names) process.on(name, onSignal);
  return {
    count: () => count,
    stop() {
      for (const name of names) process.off(name, onSignal);
    },
  };
}
