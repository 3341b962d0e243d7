import { readFileSync } from "node:fs";
import { join } from "node:path";
import * as z from "zod";
import { type EngineConfig, engineConfig } from "../engine/index.ts";
import { CommandError } from "../exit-codes.ts";

/** Everything that an owner sets for the whole machine: `config.json` in the state folder, if there is one. */
const ownerConfig = engineConfig.extend({
  history: z
    .strictObject({
      /** Runs that ended longer ago are forgotten. */
      keep_days: z.number().min(0).max(36_500).default(90),
      /** Of arguments, results and events, the newest kept. */
      keep_megabytes: z.number().min(1).max(1_000_000).default(500),
    })
    .prefault({}),
});
export type OwnerConfig = z.infer<typeof ownerConfig>;

const configPath = (folder: string): string => join(folder, "config.json");

/** Reads it anew. A broken one is an error with its path and each fault; it is never replaced or ignored. */
export function readConfig(folder: string): OwnerConfig {
  const path = configPath(folder);
  const wrong = (what: string): CommandError =>
    new CommandError("state_unusable", `The configuration ${path} ${what}`);
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT") return ownerConfig.parse({});
    throw wrong(`cannot be read (${code}).`);
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw wrong(`is no JSON: ${(error as Error).message}. Mend it or move it away; it was left as it is.`);
  }
  const parsed = ownerConfig.safeParse(value);
  if (parsed.success) return parsed.data;
  const faults = parsed.error.issues.map((i) => `${i.path.join(".") || "the whole"}: ${i.message}`);
  throw wrong(`does not fit: ${faults.join("; ")}. Mend it; it was left as it is.`);
}

/** The engine's part of it. */
export function engineConfigOf({ history: _, ...rest }: OwnerConfig): EngineConfig {
  return rest;
}
