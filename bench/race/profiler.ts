import { readdirSync, readFileSync, statSync } from "node:fs";
import { Session } from "node:inspector/promises";
import { SourceMap, type SourceMapPayload } from "node:module";
import { join } from "node:path";
import type { CpuProfile, SourceOf } from "./profile.ts";

/** Starts sampling and returns what ends it. */
export type Profiler = () => Promise<() => Promise<CpuProfile>>;

/** Samples this process. */
export const ownProfiler: Profiler = async () => {
  const session = new Session();
  session.connect();
  await session.post("Profiler.enable");
  await session.post("Profiler.start");
  return async () => {
    const { profile } = await session.post("Profiler.stop");
    session.disconnect();
    return profile;
  };
};

/** Samples what a DevTools address leads to, such as wrangler's `ws://127.0.0.1:9229/ws`. */
export async function devtoolsProfiler(address: string): ReturnType<Profiler> {
  const socket = new WebSocket(address, {
    // wrangler's inspector lets in only what says it is a debugger of this machine.
    headers: { origin: "http://localhost" },
  });
  await new Promise<void>((resolve, reject) => {
    socket.onopen = () => resolve();
    socket.onerror = () => reject(new Error(`No debugger at ${address}`));
  });
  let last = 0;
  const post = (method: string): Promise<{ profile?: CpuProfile }> => {
    const id = ++last;
    return new Promise((resolve) => {
      socket.addEventListener("message", function answered(event) {
        const message = JSON.parse(String(event.data)) as { id?: number; result?: object };
        if (message.id !== id) return;
        socket.removeEventListener("message", answered);
        resolve(message.result ?? {});
      });
      socket.send(JSON.stringify({ id, method, params: {} }));
    });
  };
  await post("Profiler.enable");
  await post("Profiler.start");
  return async () => {
    const { profile } = await post("Profiler.stop");
    socket.close();
    if (!profile) throw new Error("The debugger gave no profile");
    return profile;
  };
}

/** The sources of the bundle that `wrangler dev` made last in this repository; it deletes the bundle at its end. */
export function bundleSources(root: string): SourceOf {
  const folder = join(root, ".wrangler", "tmp");
  const maps = readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith("index.js.map"))
    .map((name) => join(folder, name))
    .sort((a, b) => statSync(b).mtimeMs - statSync(a).mtimeMs);
  const newest = maps[0];
  if (!newest) return (url) => url;
  const map = new SourceMap(JSON.parse(readFileSync(newest, "utf8")) as SourceMapPayload);
  return (url, line, column) => {
    if (!url.endsWith("index.js")) return url;
    const entry = map.findEntry(line, column);
    if (!("originalSource" in entry)) return url;
    // drizzle's own maps name its sources as if they lay beside the packages.
    return entry.originalSource.replace("node_modules/src/", "node_modules/drizzle-orm/src/");
  };
}
