import { basename, dirname } from "node:path";
import { pathToFileURL } from "node:url";
import type { Json } from "./contract.ts";
import { cutText } from "./error-text.ts";
import { ENGINE_LIMITS } from "./limits.ts";
import type { EnginePorts } from "./ports.ts";
import { runCommand } from "./process/command.ts";
import type { ProcessEnd } from "./process/group.ts";
import type { Guard } from "./process/guard.ts";
import type { FromHost, WireError } from "./process/messages.ts";
import type { Job, JobEnd } from "./run.ts";

/** What is known of a Graph's process once it is gone. */
export interface Facts {
  job: Job;
  end: ProcessEnd;
  done: Extract<FromHost, { t: "done" }> | undefined;
  resultText: string | undefined;
  meta: Json | undefined;
  fault: string | undefined;
  errorTail: string;
}

/** What all of it comes to. A run that was told to stop is cancelled, whatever it did before the stop reached it. */
export function conclude(facts: Facts): JobEnd {
  const { job, done, resultText, meta, fault } = facts;
  if (job.stop.aborted)
    return {
      status: "cancelled",
      error: stopText(job.stop.reason),
      ...(done?.ok === true && resultText !== undefined ? { result_json: resultText } : {}),
      ...(done !== undefined && (done.ok || !done.stopped) ? { finished_before_stop: true } : {}),
    };
  if (fault !== undefined) return { status: "failed", error: fault };
  if (done?.ok === false) return { status: "failed", error: errorText(done.error, job.path) };
  if (done?.ok === true && job.work.t === "describe" && meta !== undefined)
    return { status: "completed", meta };
  if (done?.ok === true && resultText !== undefined) return { status: "completed", result_json: resultText };
  return { status: "failed", error: diedText(facts) };
}

const stopText = (reason: unknown): string =>
  reason instanceof Error ? reason.message : "The run was told to stop.";

/** The error, and the place in the Graph's file that it came from. */
function errorText(error: WireError, path: string): string {
  const name = error.name === "Error" || error.name === "EngineError" ? "" : `${error.name}: `;
  const url = pathToFileURL(path).href;
  const at = error.stack?.split("\n").find((line) => line.includes(url));
  const place = at?.slice(at.indexOf(url) + url.length).match(/^:\d+(?::\d+)?/)?.[0];
  const where = place === undefined ? "" : ` (at ${basename(path)}${place})`;
  return cutText(`${name}${error.message}${where}`, ENGINE_LIMITS.errorCharacters);
}

function diedText({ job, end, errorTail }: Facts): string {
  if (end.error) return `Node could not be started: ${end.error.message}`;
  if (/heap out of memory|Reached heap limit/.test(errorTail))
    return `The Graph used more than its ${job.settings.memory_megabytes} MB of memory.`;
  if (end.signal !== null) return `The Graph's process was ended by ${end.signal} before it returned.`;
  return `The Graph ended its process (exit code ${end.code}) before it returned.`;
}

/** Node tells the line of a syntax error only to whoever starts the file itself. */
export const isUnplacedSyntaxError = ({ error }: JobEnd): boolean =>
  error?.startsWith("SyntaxError: ") === true && !error.endsWith(")");

/** The same end, with the line at which the file does not parse, if it is in this file. */
export async function placeSyntaxError(
  ports: EnginePorts,
  guard: Guard,
  path: string,
  end: JobEnd,
): Promise<JobEnd> {
  const { stderr } = await runCommand(
    ports,
    guard,
    {
      command: process.execPath,
      args: ["--check", path],
      cwd: dirname(path),
      env: {},
      timeoutMilliseconds: 10_000,
      maxBytes: 100_000,
    },
    new AbortController().signal,
  );
  const line = stderr.startsWith(`${path}:`) ? stderr.slice(path.length + 1).match(/^\d+/)?.[0] : undefined;
  return line === undefined ? end : { ...end, error: `${end.error} (at ${basename(path)}:${line})` };
}
