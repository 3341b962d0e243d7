import type { Readable } from "node:stream";
import type { EngineClock } from "../ports.ts";

/**
 * Reads a stream at no more than `bytesPerSecond`, so that one that floods costs its writer time and not the reader. Returns
 * what ends the reading.
 */
export function readThrottled(
  stream: Readable,
  clock: EngineClock,
  bytesPerSecond: number,
  onData: (bytes: Uint8Array) => void,
): () => void {
  const WINDOW = 100;
  const allowance = (bytesPerSecond * WINDOW) / 1000;
  let windowStart = clock.elapsed();
  let used = 0;
  let cancelResume = (): void => {};

  stream.on("data", (bytes: Uint8Array) => {
    const now = clock.elapsed();
    if (now - windowStart >= WINDOW) {
      windowStart = now;
      used = 0;
    }
    used += bytes.length;
    onData(bytes);
    if (used < allowance) return;
    stream.pause();
    cancelResume = clock.after(WINDOW, () => stream.resume());
  });
  // A process that dies with unread input resets its end; that is no fault of ours to report.
  stream.on("error", () => {});
  return () => {
    cancelResume();
    stream.destroy();
  };
}
