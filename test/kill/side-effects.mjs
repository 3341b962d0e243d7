import { appendFileSync, existsSync } from "node:fs";
import { setTimeout as wait } from "node:timers/promises";

/**
 * A Graph whose every execution leaves a mark in a file, as one that sends mail would. `args`: `key` names
 * the run; it ends after `ms`, or once there is a file `go-<key>`; `fails` or `characters` say how.
 */
export default async function sideEffects({ args, signal }) {
  const { key, ms, fails, characters = 0 } = args;
  const here = (name) => new URL(name, import.meta.url);
  const note = (what) => appendFileSync(here("marks"), `${what} ${key} ${process.pid}\n`);
  note("begin");
  if (ms === undefined) while (!existsSync(here(`go-${key}`))) await wait(20, undefined, { signal });
  else await wait(ms, undefined, { signal });
  note("end");
  if (fails) throw new Error(`Failed as asked: ${key}`);
  return { key, text: "x".repeat(characters) };
}
