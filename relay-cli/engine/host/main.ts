// The start of a Graph's own process. The engine speaks first, on descriptor 3: what to load and with what.
import * as net from "node:net";
import { pathToFileURL } from "node:url";
import { format } from "node:util";
import { cutText, describeThrown } from "../error-text.ts";
import { ENGINE_LIMITS } from "../limits.ts";
import type { ToHost } from "../process/messages.ts";
import { createGraphApi } from "./api.ts";
import { checkArguments } from "./arguments.ts";
import { joinEngine } from "./engine-link.ts";
import { toJsonText } from "./json-text.ts";
import { describeMeta, readModule } from "./meta.ts";
import { closeNetwork } from "./no-network.ts";

const kill = process.kill.bind(process);
const exit = process.exit.bind(process);
const stop = new AbortController();
let ended = false;
let stoppedBeforeEnd = false;

/** Nobody is left to answer to: end, with everything this process has started. */
function gone(): void {
  if (process.platform !== "win32") {
    try {
      kill(-process.pid, "SIGKILL");
    } catch {
      // Not the leader of a group; its own end is all there is.
    }
  }
  exit(1);
}

const link = joinEngine(new net.Socket({ fd: 3, readable: true, writable: true }), { message, gone });

function message(m: ToHost): void {
  if (m.t === "stop") giveStop();
  else if (m.t === "run") void finish(run(m.path, m.args));
  else if (m.t === "describe") void finish(describe(m.path));
}

function giveStop(): void {
  if (!stop.signal.aborted) stop.abort(new DOMException("The run was told to stop.", "AbortError"));
}

async function load(path: string): Promise<ReturnType<typeof readModule>> {
  return readModule((await import(pathToFileURL(path).href)) as Record<string, unknown>);
}

async function describe(path: string): Promise<undefined> {
  const { meta } = await load(path);
  link.sendText("M", `{"t":"described","meta":${describeMeta(meta)}}`);
  return undefined;
}

async function run(path: string, argsText: string): Promise<string> {
  const graph = await load(path);
  const args = await checkArguments(graph.meta.arguments, JSON.parse(argsText));
  const value = await graph.run(createGraphApi(args, link, stop.signal));
  stoppedBeforeEnd = stop.signal.aborted;
  const text = toJsonText(value, "result");
  if (text.length > ENGINE_LIMITS.resultCharacters)
    throw new RangeError(
      `The result is ${text.length} characters of JSON; the most is ${ENGINE_LIMITS.resultCharacters}. Return a summary and write the rest to a file.`,
    );
  return text;
}

/** Tells the engine how it ended, once, and leaves, whatever timers or sockets the Graph has left open. */
async function finish(work: Promise<string | undefined>): Promise<void> {
  try {
    const text = await work;
    if (ended) return;
    ended = true;
    if (text !== undefined) link.sendText("R", text);
    link.send({ t: "done", ok: true, stopped: stoppedBeforeEnd });
  } catch (thrown) {
    if (ended) return;
    ended = true;
    link.send({ t: "done", ok: false, stopped: stop.signal.aborted, error: describeThrown(thrown) });
  }
  await link.flushed();
  exit(0);
}

const logLine = (...parts: unknown[]): void =>
  link.send({ t: "log", line: cutText(format(...parts), ENGINE_LIMITS.logLineCharacters) });
for (const method of ["log", "info", "warn", "error", "debug", "trace"] as const) console[method] = logLine;

process.on("SIGTERM", giveStop);
process.on("uncaughtException", (thrown) => void finish(Promise.reject(thrown)));
process.on("unhandledRejection", (thrown) => void finish(Promise.reject(thrown)));
process.on("beforeExit", () => {
  if (!ended)
    void finish(
      Promise.reject(
        new Error(
          "The Graph waits for something that can never come: nothing is under way, and its function has not returned.",
        ),
      ),
    );
});
// A Graph has no business with other processes' lives, least of all the engine's.
const refuseKill = (): never => {
  throw new Error("process.kill is not available in a Graph.");
};
process.kill = refuseKill;
Object.defineProperty(process, "_kill", { value: refuseKill });

// The permission model is on: this Graph is not trusted.
if ("permission" in process) closeNetwork();

link.send({ t: "ready" });
