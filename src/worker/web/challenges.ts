import { sha256Hex } from "../../protocol/json.ts";
import { systemClock } from "../../protocol/ports.ts";
import { database } from "../db/client.ts";
import { type ChallengeKind, insertChallenge, takeChallenge } from "../db/web-challenges.ts";
import type { WebContext } from "./session.ts";

const CHALLENGE_MS = 5 * 60 * 1000;

const browserHash = (c: WebContext): Promise<string> => sha256Hex(`browser:${c.get("csrf")}`);

/** Remembers what this browser has begun, under a secret that comes back with its end. */
export async function beginChallenge(
  c: WebContext,
  kind: ChallengeKind,
  secret: string,
  more: { accountId?: string; value?: unknown } = {},
): Promise<void> {
  await insertChallenge(database(c.env.DB), {
    challenge_hash: await sha256Hex(secret),
    kind,
    browser_hash: await browserHash(c),
    account_id: more.accountId ?? null,
    value: JSON.stringify(more.value ?? null),
    expires_at: systemClock.now() + CHALLENGE_MS,
  });
}

/** What was begun under this secret; `undefined` if it was not, not here, too long ago, or has been ended already. */
export async function endChallenge(
  c: WebContext,
  kind: ChallengeKind,
  secret: string,
): Promise<{ accountId: string | null; value: unknown } | undefined> {
  const row = await takeChallenge(database(c.env.DB), {
    hash: await sha256Hex(secret),
    kind,
    browserHash: await browserHash(c),
    now: systemClock.now(),
  });
  return row && { accountId: row.account_id, value: JSON.parse(row.value) };
}
