import { systemClock } from "../protocol/ports.ts";
import { deliverMissing } from "./access.ts";
import { finishDeletions } from "./account-deletion.ts";
import { sweepExpired } from "./db/sweep.ts";
import type { Env } from "./env.ts";
import { logFailure } from "./log.ts";
import { GRACE_MS } from "./oauth/refresh.ts";
import { finishProjectDeletions } from "./project-deletion.ts";

const WORK: Readonly<Record<string, (env: Env) => Promise<void>>> = {
  "delivering access": deliverMissing,
  "finishing accounts' deletions": finishDeletions,
  "finishing projects' deletions": finishProjectDeletions,
  "sweeping what has expired": (env) => sweepExpired(env.DB, systemClock.now(), GRACE_MS),
};

/**
 * Each minute's work: access that did not reach its object, deletions that were cut off, and rows whose time is
 * over. A part that fails keeps no other from its turn.
 */
export async function everyMinute(env: Env): Promise<void> {
  for (const [name, work] of Object.entries(WORK)) {
    try {
      await work(env);
    } catch (error) {
      logFailure(`${name} failed, and is tried again in a minute:`, error);
    }
  }
}
