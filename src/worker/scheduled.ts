import { systemClock } from "../protocol/ports.ts";
import { deliverMissing } from "./access.ts";
import { finishDeletions } from "./account-deletion.ts";
import { sweepExpired } from "./db/sweep.ts";
import type { Env } from "./env.ts";
import { GRACE_MS } from "./oauth/refresh.ts";
import { finishProjectDeletions } from "./project-deletion.ts";

/** Each minute's work: access that did not reach its object, deletions that were cut off, and rows whose time is over. */
export async function everyMinute(env: Env): Promise<void> {
  await deliverMissing(env);
  await finishDeletions(env);
  await finishProjectDeletions(env);
  await sweepExpired(env.DB, systemClock.now(), GRACE_MS);
}
