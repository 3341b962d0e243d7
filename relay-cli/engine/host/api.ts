import { setTimeout as wait } from "node:timers/promises";
import { format } from "node:util";
import type { Json } from "../contract.ts";
import { cutText } from "../error-text.ts";
import { ENGINE_LIMITS } from "../limits.ts";
import { askAgent } from "./agent.ts";
import type { EngineLink } from "./engine-link.ts";
import { toJsonText } from "./json-text.ts";
import { type ParallelOptions, parallel } from "./parallel.ts";
import { type RetryOptions, retry } from "./retry.ts";

/** What a Graph says of how far it is. */
type ProgressInput = string | number | { message?: string; percent?: number };

/** The one object that a Graph's function gets. */
export function createGraphApi(
  args: unknown,
  link: EngineLink,
  signal: AbortSignal,
): Record<string, unknown> {
  const asJson = (value: unknown, what: string): Json => JSON.parse(toJsonText(value, what)) as Json;
  const asObject = (value: unknown, what: string): { [key: string]: Json } => {
    const json = asJson(value, what);
    if (typeof json !== "object" || json === null || Array.isArray(json))
      throw new TypeError(`${what} must be an object.`);
    return json;
  };
  const asName = (value: unknown, what: string): string => {
    if (typeof value !== "string" || value === "") throw new TypeError(`${what} must be a text.`);
    return value;
  };
  /** Rejects at once when the run is told to stop, so that a waiting Graph can tidy up and end. */
  const whileNotStopped = <T>(promise: Promise<T>): Promise<T> => {
    const { promise: stopped, reject } = Promise.withResolvers<never>();
    const onStop = (): void => reject(signal.reason);
    if (signal.aborted) onStop();
    else signal.addEventListener("abort", onStop, { once: true });
    return Promise.race([promise, stopped]).finally(() => signal.removeEventListener("abort", onStop));
  };

  return {
    args,
    signal,
    log: (...parts: unknown[]): void =>
      link.send({ t: "log", line: cutText(format(...parts), ENGINE_LIMITS.logLineCharacters) }),
    progress: (input: ProgressInput): void => {
      const { message, percent } =
        typeof input === "string"
          ? { message: input, percent: undefined }
          : typeof input === "number"
            ? { message: undefined, percent: input }
            : input;
      link.send({
        t: "progress",
        ...(message === undefined
          ? {}
          : { message: cutText(String(message), ENGINE_LIMITS.progressCharacters) }),
        ...(percent === undefined ? {} : { percent: Number(percent) }),
      });
    },
    agent: (prompt: unknown, options: unknown = {}) =>
      askAgent(
        (text, sent) => whileNotStopped(link.call({ fn: "agent", prompt: text, options: sent })),
        prompt,
        options,
      ),
    tool: async (name: string, input: unknown = {}): Promise<Json> =>
      whileNotStopped(
        link.call({
          fn: "tool",
          name: asName(name, "tool: the name"),
          input: asJson(input, `${name}: the input`),
        }),
      ),
    graph: async (slug: string, subArgs: unknown = {}): Promise<Json> =>
      whileNotStopped(
        link.call({
          fn: "graph",
          slug: asName(slug, "graph: the slug"),
          args: asObject(subArgs, `graph ${slug}: the arguments`),
        }),
      ),
    parallel: <T>(tasks: readonly (() => Promise<T>)[], options: ParallelOptions = {}) =>
      parallel(tasks, options, signal),
    retry: <T>(fn: (at: { attempt: number }) => Promise<T>, options: RetryOptions = {}) =>
      retry(fn, options, signal, {
        wait: (ms, s) => wait(ms, undefined, { signal: s }),
        random: Math.random,
      }),
  };
}
