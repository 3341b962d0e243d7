import { sha256Hex } from "../../protocol/json.ts";
import type { Clock } from "../../protocol/ports.ts";
import { oauthError } from "./http.ts";
import { seal, unseal } from "./sealed-answer.ts";

/** How long after a refresh its token still gets the same answer, and how often. Clients refresh in parallel and lose answers. */
export const GRACE_MS = 90_000;
const REPEATS_MAX = 50;
/** A refresh that has not answered for this long is taken to be dead, and a repeat does it anew. */
const STUCK_MS = 15_000;
const WAIT_MS = 100;
const WAITS_MAX = 100;

interface Refresh {
  token: string;
  clientId: string;
  accountId: string;
  grantId: string;
  hash: string;
}

export interface RefreshPorts {
  d1: D1Database;
  clock: Clock;
  /** Asks the library for the refresh itself. */
  refresh(): Promise<Response>;
  sleep(ms: number): Promise<void>;
}

/**
 * Refreshes idempotently: of all who present one refresh token, the first has it done, and the others get
 * the same answer for as long as the grace lasts. After it, a used token is taken for a stolen one and ends
 * the grant. A token that is not the client's, or none of ours, costs no write.
 */
export async function refreshOnce(token: string, clientId: string, ports: RefreshPorts): Promise<Response> {
  const [accountId = "", grantId = ""] = token.split(":");
  const refresh: Refresh = { token, clientId, accountId, grantId, hash: await sha256Hex(token) };
  for (let wait = 0; wait < WAITS_MAX; wait++) {
    if (await claim(refresh, ports)) return run(refresh, ports);
    const answer = await answerOf(refresh, ports);
    if (answer !== "wait") return answer;
    await ports.sleep(WAIT_MS);
  }
  return oauthError(503, "temporarily_unavailable", "The refresh is still under way. Try again.", {
    "retry-after": "5",
  });
}

/**
 * Takes the refresh, if the token is the grant's newest and nobody has. A refresh that failed or died half way
 * may have come as far as the grant, where its token is the previous one: it is taken up again.
 */
async function claim(r: Refresh, { d1, clock }: RefreshPorts): Promise<boolean> {
  const now = clock.now();
  const { meta } = await d1
    .prepare(
      `INSERT INTO refresh_answers (token_hash, account_id, grant_id, client_id, created_at)
       SELECT ?1, ?2, ?3, ?4, ?5 FROM oauth_store
       WHERE key = 'grant:' || ?2 || ':' || ?3 AND (expires_at IS NULL OR expires_at > ?5)
         AND json_extract(value, '$.clientId') = ?4
         AND ?1 IN (json_extract(value, '$.refreshTokenId'), json_extract(value, '$.previousRefreshTokenId'))
       ON CONFLICT (token_hash) DO UPDATE SET created_at = ?5 WHERE sealed_answer IS NULL AND created_at < ?6`,
    )
    .bind(r.hash, r.accountId, r.grantId, r.clientId, now, now - STUCK_MS)
    .run();
  return meta.changes > 0;
}

async function run(r: Refresh, { d1, clock, refresh }: RefreshPorts): Promise<Response> {
  let done = false;
  try {
    const response = await refresh();
    if (!response.ok) return response;
    const answer = await response.text();
    await d1
      .prepare("UPDATE refresh_answers SET sealed_answer = ?2, created_at = ?3 WHERE token_hash = ?1")
      .bind(r.hash, await seal(r.token, answer), clock.now())
      .run();
    done = true;
    return json(answer);
  } finally {
    if (!done)
      await d1
        .prepare("DELETE FROM refresh_answers WHERE token_hash = ?1 AND sealed_answer IS NULL")
        .bind(r.hash)
        .run();
  }
}

/** What a repeat gets: the first's answer, a refusal, or the advice to wait for the first. */
async function answerOf(r: Refresh, { d1, clock, refresh }: RefreshPorts): Promise<Response | "wait"> {
  const row = await d1
    .prepare("SELECT sealed_answer, created_at FROM refresh_answers WHERE token_hash = ?1 AND client_id = ?2")
    .bind(r.hash, r.clientId)
    .first<{ sealed_answer: string | null; created_at: number }>();
  // Not a token of this client's: the library says what is wrong with it.
  if (!row) return refresh();
  if (row.sealed_answer === null) return "wait";
  if (row.sealed_answer !== "" && row.created_at + GRACE_MS > clock.now())
    return repeat(r, row.sealed_answer, d1);
  await d1.batch([reuseNote(d1, r, clock.now()), ...grantRevocation(d1, r.accountId, r.grantId)]);
  return invalidGrant();
}

/** The statement that tells the owner, once a grant. */
const reuseNote = (d1: D1Database, r: Refresh, now: number): D1PreparedStatement =>
  d1
    .prepare(
      `INSERT INTO audit_events (account_id, at, action, detail)
       SELECT ?1, ?2, 'agent_token_reused', json_object('name', name) FROM agents
       WHERE account_id = ?1 AND client_id = ?3
         AND EXISTS (SELECT 1 FROM oauth_store WHERE key = 'grant:' || ?1 || ':' || ?4)`,
    )
    .bind(r.accountId, now, r.clientId, r.grantId);

/** The same answer again, while the grant stands. */
async function repeat(r: Refresh, sealed: string, d1: D1Database): Promise<Response> {
  const { meta } = await d1
    .prepare(
      `UPDATE refresh_answers SET repeats = repeats + 1 WHERE token_hash = ?1 AND repeats < ?2
       AND EXISTS (SELECT 1 FROM oauth_store WHERE key = 'grant:' || account_id || ':' || grant_id)`,
    )
    .bind(r.hash, REPEATS_MAX)
    .run();
  return meta.changes > 0 ? json(await unseal(r.token, sealed)) : invalidGrant();
}

/** The statements that end one grant: its tokens with it, and the answers to its refreshes. */
export function grantRevocation(d1: D1Database, accountId: string, grantId: string): D1PreparedStatement[] {
  const tokens = `token:${accountId}:${grantId}`;
  return [
    d1.prepare("DELETE FROM oauth_store WHERE key = ?1").bind(`grant:${accountId}:${grantId}`),
    d1.prepare("DELETE FROM oauth_store WHERE key > ?1 AND key < ?2").bind(`${tokens}:`, `${tokens};`),
    d1
      .prepare("UPDATE refresh_answers SET sealed_answer = '' WHERE account_id = ?1 AND grant_id = ?2")
      .bind(accountId, grantId),
  ];
}

const json = (answer: string): Response =>
  new Response(answer, {
    headers: { "content-type": "application/json", "cache-control": "no-store", pragma: "no-cache" },
  });

const invalidGrant = (): Response =>
  oauthError(400, "invalid_grant", "The refresh token is unknown, expired, revoked or used");
