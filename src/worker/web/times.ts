import { html } from "hono/html";
import { systemClock } from "../../protocol/ports.ts";

const STEPS: readonly (readonly [seconds: number, name: string])[] = [
  [86_400, "day"],
  [3_600, "hour"],
  [60, "minute"],
];

/** A time to the minute, in UTC, which the page says elsewhere. */
export const time = (ms: number) => html`<time datetime="${new Date(ms).toISOString()}">${minute(ms)}</time>`;

/** How long ago something was, for people; from a month on the day. */
export const ago = (ms: number) =>
  html`<time datetime="${new Date(ms).toISOString()}" title="${minute(ms)} UTC">${words(ms)}</time>`;

function words(ms: number): string {
  const seconds = Math.floor((systemClock.now() - ms) / 1000);
  if (seconds >= 30 * 86_400) return `on ${minute(ms).slice(0, 10)}`;
  const step = STEPS.find(([length]) => seconds >= length);
  if (!step) return "just now";
  const count = Math.floor(seconds / step[0]);
  return `${count} ${step[1]}${count === 1 ? "" : "s"} ago`;
}

const minute = (ms: number): string => new Date(ms).toISOString().slice(0, 16).replace("T", " ");
