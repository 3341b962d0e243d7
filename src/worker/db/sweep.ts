/** Rows one sweep of a table takes at most: a batch stays far below D1's limits, the next minute goes on. */
const ROWS = 500;

/** Refresh answers outlive every grant, as a used token must still be known when it comes back: 30 days and one. */
const ANSWERS_KEPT_MS = 31 * 24 * 3600 * 1000;

/** How long an owner can look back. */
const AUDIT_KEPT_MS = 365 * 24 * 3600 * 1000;

/** Deletes what has expired, in bounded batches. */
export async function sweepExpired(d1: D1Database, now: number, graceMs: number): Promise<void> {
  const expired = (table: string, key: string, column: string, before: number) =>
    d1
      .prepare(
        `DELETE FROM ${table} WHERE (${key}) IN (SELECT ${key} FROM ${table} WHERE ${column} < ?1 LIMIT ${ROWS})`,
      )
      .bind(before);
  await d1.batch([
    expired("oauth_store", "key", "expires_at", now),
    expired("one_time_codes", "code_hash", "expires_at", now),
    expired("web_sessions", "session_hash", "expires_at", now),
    expired("web_challenges", "challenge_hash", "expires_at", now),
    expired("invitations", "code_hash", "expires_at", now),
    expired("audit_events", "id", "at", now - AUDIT_KEPT_MS),
    expired("used_assertions", "device_id, jti", "expires_at", now),
    expired("refresh_answers", "token_hash", "created_at", now - ANSWERS_KEPT_MS),
    // Past the grace nobody gets the answer; that the token was used stays known.
    d1
      .prepare(
        `UPDATE refresh_answers SET sealed_answer = '' WHERE token_hash IN
         (SELECT token_hash FROM refresh_answers WHERE created_at < ?1 AND sealed_answer <> '' LIMIT ${ROWS})`,
      )
      .bind(now - graceMs),
  ]);
}
