import type { Json } from "../contract.ts";

/** What went wrong, as it crosses between processes. `code` is one of the engine's error codes, if it is one. */
export interface WireError {
  name: string;
  message: string;
  stack?: string;
  code?: string;
}

/** The bounds a Graph's `parallel` and `retry` keep to; sent along so that both sides know one table. */
export type ToHost =
  | { t: "describe"; path: string }
  | { t: "run"; path: string; args: string }
  | { t: "reply"; id: number; ok: true; value: Json }
  | { t: "reply"; id: number; ok: false; error: WireError }
  | { t: "stop" };

/** What a Graph may ask the engine for. */
export type HostCall =
  | { fn: "tool"; name: string; input: Json }
  | { fn: "agent"; prompt: string; options: { [key: string]: Json } }
  | { fn: "graph"; slug: string; args: { [key: string]: Json } };

export type FromHost =
  | { t: "ready" }
  | { t: "described"; meta: Json }
  | { t: "log"; line: string }
  | { t: "progress"; message?: string; percent?: number }
  | ({ t: "call"; id: number } & HostCall)
  /** The end. With `ok` the result's text came before. `stopped`: the signal had been given by then. */
  | { t: "done"; ok: true; stopped: boolean }
  | { t: "done"; ok: false; stopped: boolean; error: WireError };

const isObject = (value: unknown): value is { [key: string]: Json } =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const isText = (value: unknown): value is string => typeof value === "string";

/** Reads one message of a Graph's process. A Graph can write anything there, so nothing is believed. */
export function parseFromHost(text: string): FromHost | undefined {
  let m: unknown;
  try {
    m = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (!isObject(m)) return undefined;
  switch (m.t) {
    case "ready":
      return { t: "ready" };
    case "described":
      return { t: "described", meta: m.meta ?? null };
    case "log":
      return isText(m.line) ? { t: "log", line: m.line } : undefined;
    case "progress":
      return {
        t: "progress",
        ...(isText(m.message) ? { message: m.message } : {}),
        ...(typeof m.percent === "number" ? { percent: m.percent } : {}),
      };
    case "call":
      return parseCall(m);
    case "done":
      return parseDone(m);
    default:
      return undefined;
  }
}

function parseCall(m: { [key: string]: Json }): FromHost | undefined {
  const { id } = m;
  if (typeof id !== "number" || !Number.isSafeInteger(id)) return undefined;
  if (m.fn === "tool" && isText(m.name))
    return { t: "call", id, fn: "tool", name: m.name, input: m.input ?? null };
  if (m.fn === "agent" && isText(m.prompt) && isObject(m.options))
    return { t: "call", id, fn: "agent", prompt: m.prompt, options: m.options };
  if (m.fn === "graph" && isText(m.slug) && isObject(m.args))
    return { t: "call", id, fn: "graph", slug: m.slug, args: m.args };
  return undefined;
}

function parseDone(m: { [key: string]: Json }): FromHost | undefined {
  const stopped = m.stopped === true;
  if (m.ok === true) return { t: "done", ok: true, stopped };
  const e = m.error;
  if (!isObject(e) || !isText(e.name) || !isText(e.message)) return undefined;
  return {
    t: "done",
    ok: false,
    stopped,
    error: {
      name: e.name,
      message: e.message,
      ...(isText(e.stack) ? { stack: e.stack } : {}),
      ...(isText(e.code) ? { code: e.code } : {}),
    },
  };
}
