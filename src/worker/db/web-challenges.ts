import { and, eq, gt } from "drizzle-orm";
import type { Database } from "./client.ts";
import { webChallenges } from "./schema.ts";

export type ChallengeKind = (typeof webChallenges.$inferSelect)["kind"];

export const insertChallenge = (db: Database, challenge: typeof webChallenges.$inferInsert) =>
  db.insert(webChallenges).values(challenge);

/** Takes a challenge away: it is used once, by the browser that began it, for what it was begun for. */
export async function takeChallenge(
  db: Database,
  challenge: { hash: string; kind: ChallengeKind; browserHash: string; now: number },
): Promise<{ account_id: string | null; value: string } | undefined> {
  const [row] = await db
    .delete(webChallenges)
    .where(
      and(
        eq(webChallenges.challenge_hash, challenge.hash),
        eq(webChallenges.kind, challenge.kind),
        eq(webChallenges.browser_hash, challenge.browserHash),
        gt(webChallenges.expires_at, challenge.now),
      ),
    )
    .returning({ account_id: webChallenges.account_id, value: webChallenges.value });
  return row;
}
