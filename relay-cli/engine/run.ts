import { extname } from "node:path";
import type { Duplex, Readable } from "node:stream";
import type { EngineEvent, GraphRef, Json, RunOutcome } from "./contract.ts";
import { describeThrown } from "./error-text.ts";
import { EngineError } from "./errors.ts";
import { isJsonText } from "./json-check.ts";
import { ENGINE_LIMITS } from "./limits.ts";
import { conclude, isUnplacedSyntaxError, placeSyntaxError } from "./outcome.ts";
import type { EnginePorts } from "./ports.ts";
import { createFrameDecoder, encodeFrames } from "./process/channel.ts";
import { spawnGraph } from "./process/graph-process.ts";
import type { ProcessGroup } from "./process/group.ts";
import type { Guard } from "./process/guard.ts";
import { watchMemory } from "./process/memory.ts";
import { type FromHost, type HostCall, parseFromHost, type ToHost } from "./process/messages.ts";
import { readThrottled } from "./process/throttle.ts";
import { createRunLog } from "./run-log.ts";
import type { GraphSettings } from "./settings.ts";

/** What a Graph's process is started for. */
export interface Job {
  graph: GraphRef;
  /** The Graph's real path, looked up by `locateGraph`. */
  path: string;
  settings: GraphSettings;
  work: { t: "run"; args: { [key: string]: Json } } | { t: "describe" };
  /** Given when the run is to stop. */
  stop: AbortSignal;
  emit(event: EngineEvent): void;
  /** What the Graph says of how far it is. */
  progress(said: { message?: string; percent?: number }): void;
  /** The process is there. */
  started(): void;
  /** Does what the Graph asks for. What it throws is thrown in the Graph. `signal` is given at the process's end. */
  serve(call: HostCall, signal: AbortSignal): Promise<Json>;
}

/** How a Graph's process ended, before it is told as an outcome. */
export interface JobEnd {
  status: RunOutcome["status"];
  result_json?: string;
  error?: string;
  finished_before_stop?: boolean;
  meta?: Json;
}

/** The real path of a Graph's file, or an EngineError that says what is wrong with it. */
export async function locateGraph(ports: EnginePorts, graph: GraphRef): Promise<string> {
  if (![".js", ".mjs", ".ts", ".mts"].includes(extname(graph.path)))
    throw new EngineError("not_found", `A Graph is a .js, .mjs or .ts file; ${graph.path} is none.`);
  try {
    const path = await ports.fs.realpath(graph.path);
    if (!(await ports.fs.stat(path)).isFile())
      throw new EngineError("not_found", `The Graph's file ${graph.path} is no file.`);
    return path;
  } catch (error) {
    if (error instanceof EngineError) throw error;
    const { code } = error as { code?: string };
    throw new EngineError(
      "not_found",
      code === "ENOENT"
        ? `The Graph's file ${graph.path} is not there. It may have been moved or deleted.`
        : `The Graph's file ${graph.path} cannot be opened (${code}).`,
    );
  }
}

/** Runs a Graph's process from its start until nothing of it is left. Never rejects. */
export async function runJob(ports: EnginePorts, guard: Guard, job: Job): Promise<JobEnd> {
  const { clock } = ports;
  const log = createRunLog(job.emit);
  let group: ProcessGroup;
  try {
    group = spawnGraph(ports, guard, job.path, job.settings);
  } catch (error) {
    return { status: "failed", error: `Node could not be started: ${describeThrown(error).message}` };
  }
  const channel = group.child.stdio[3] as Duplex | undefined;
  const served = new AbortController();
  const calls = new Set<Promise<void>>();
  let ready = false;
  let done: Extract<FromHost, { t: "done" }> | undefined;
  let resultText: string | undefined;
  let meta: Json | undefined;
  let fault: string | undefined;
  let errorTail = "";
  const errorOutput = log.output();
  const timers: (() => void)[] = [];
  const later = (ms: number, fn: () => void): void => void timers.push(clock.after(ms, fn));

  const send = (message: ToHost): void => {
    if (channel === undefined || channel.destroyed || !channel.writable) return;
    for (const line of encodeFrames("M", JSON.stringify(message))) channel.write(line);
  };
  const failWith = (text: string): void => {
    if (done !== undefined || fault !== undefined) return;
    fault = text;
    group.stop();
  };
  const answer = async (id: number, call: HostCall): Promise<void> => {
    try {
      if (calls.size >= ENGINE_LIMITS.pendingCalls)
        throw new EngineError(
          "limit",
          `More than ${ENGINE_LIMITS.pendingCalls} calls are under way at once.`,
        );
      send({ t: "reply", id, ok: true, value: await job.serve(call, served.signal) });
    } catch (error) {
      send({ t: "reply", id, ok: false, error: describeThrown(error) });
    }
  };
  const onMessage = (m: FromHost): void => {
    if (m.t === "ready" && !ready) {
      ready = true;
      const { path, work } = job;
      send(work.t === "run" ? { t: "run", path, args: JSON.stringify(work.args) } : { t: "describe", path });
    } else if (m.t === "log") log.line(m.line);
    else if (m.t === "progress") job.progress(m);
    else if (m.t === "described") meta = m.meta;
    else if (m.t === "call" && done === undefined) {
      const answered = answer(m.id, m).finally(() => calls.delete(answered));
      calls.add(answered);
    } else if (m.t === "done" && done === undefined) {
      done = m;
      later(ENGINE_LIMITS.exitGraceMilliseconds, () => void group.destroy());
    }
  };
  const decode = createFrameDecoder();
  const onBytes = (bytes: Uint8Array): void => {
    for (const frame of decode(bytes)) {
      if (frame.kind === "R") resultText = frame.text;
      else if (frame.kind === "fault") failWith(`The Graph's process sent ${frame.text}.`);
      else {
        const m = parseFromHost(frame.text);
        if (m === undefined) failWith("The Graph's process sent a message that is not the engine's.");
        else onMessage(m);
      }
    }
  };
  const { stdout, stderr } = group.child;
  const readers = [
    { stream: channel, on: onBytes },
    { stream: stdout, on: log.output() },
    {
      stream: stderr,
      on: (bytes: Uint8Array): void => {
        errorTail = (errorTail + Buffer.from(bytes).toString("latin1")).slice(-8_000);
        errorOutput(bytes);
      },
    },
  ].flatMap(({ stream, on }) =>
    stream ? [readThrottled(stream as Readable, clock, ENGINE_LIMITS.bytesPerSecond, on)] : [],
  );

  const onStop = (): void => {
    send({ t: "stop" });
    group.stop();
  };
  if (group.child.pid !== undefined) {
    job.started();
    if (job.stop.aborted) onStop();
    else job.stop.addEventListener("abort", onStop, { once: true });
    later(ENGINE_LIMITS.startMilliseconds, () => {
      if (!ready) failWith("The Graph's process did not begin in 30 s.");
    });
    const { memory_megabytes } = job.settings;
    timers.push(
      watchMemory(ports, group.child.pid, memory_megabytes, () => {
        fault ??= `The Graph used more than its ${memory_megabytes} MB of memory.`;
        void group.destroy();
      }),
    );
    later(job.settings.max_run_seconds * 1000, () =>
      failWith(`The Graph ran for more than its ${job.settings.max_run_seconds} s and was stopped.`),
    );
  }

  const end = await group.ended;
  await group.destroy();
  await Promise.all([channel, stdout, stderr].map((stream) => drained(ports, stream)));
  job.stop.removeEventListener("abort", onStop);
  for (const cancel of timers) cancel();
  served.abort(new EngineError("stopped", "The run has ended."));
  await Promise.all(calls);
  for (const close of readers) close();
  log.end();
  if (resultText !== undefined && !(await isJsonText(resultText, ENGINE_LIMITS.jsonDepth))) {
    fault ??= "The Graph's process sent a result that is no JSON.";
    resultText = undefined;
  }
  const ended = conclude({ job, end, done, resultText, meta, fault, errorTail });
  return isUnplacedSyntaxError(ended) ? placeSyntaxError(ports, guard, job.path, ended) : ended;
}

/** A process that left the group may hold a pipe open; what it writes is nobody's any more. */
function drained(ports: EnginePorts, stream: Duplex | Readable | null | undefined): Promise<void> {
  if (!stream || stream.readableEnded || stream.destroyed) return Promise.resolve();
  return new Promise((resolve) => {
    const cancel = ports.clock.after(1_000, resolve);
    const finish = (): void => {
      cancel();
      resolve();
    };
    stream.once("end", finish);
    stream.once("close", finish);
  });
}
