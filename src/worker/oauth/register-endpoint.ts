import { systemClock } from "../../protocol/ports.ts";
import { readBodyText } from "../body.ts";
import type { Env } from "../env.ts";
import { addressKey, RATE_PERIOD_SECONDS, withinLimit } from "../rate-limit.ts";
import { noStore, oauthError } from "./http.ts";
import { issuerOf } from "./issuer.ts";
import { normalRegistration, registrationKey } from "./registration.ts";
import { authorizationServer, oauthEnv } from "./server.ts";

const BODY_BYTES = 64 * 1024;

/**
 * `POST /register`: dynamic client registration. The same client again gets the id it has, so that a client
 * that registers before each sign-in stays one connected agent.
 */
export async function registerClient(request: Request, env: Env, ctx: ExecutionContext): Promise<Response> {
  if (!(await withinLimit(env.LIMIT_REGISTRATION, addressKey(request))))
    return oauthError(429, "temporarily_unavailable", "Too many registrations. Try again later.", {
      "retry-after": String(RATE_PERIOD_SECONDS),
    });
  const read = await readBodyText(request, BODY_BYTES);
  if (!read.ok && read.error === "too_large")
    return oauthError(413, "invalid_request", `The body is over ${BODY_BYTES} bytes`);
  let body: unknown;
  try {
    body = JSON.parse(read.ok ? read.text : "");
  } catch {
    return oauthError(400, "invalid_client_metadata", "The body is not JSON");
  }
  const normal = normalRegistration(body);
  if (!normal.ok) return oauthError(400, "invalid_client_metadata", normal.why);

  const key = `registration:${await registrationKey(normal.metadata)}`;
  const known = await knownClient(env.DB, key, systemClock.now());
  if (known) return noStore(Response.json({ ...normal.metadata, ...known }, { status: 201 }));

  const issuer = issuerOf(request);
  const forwarded = new Request(`${issuer}/register`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(normal.metadata),
  });
  const response = await authorizationServer(issuer).fetch(forwarded, oauthEnv(env), ctx);
  const answer = await response.text();
  if (response.status === 201) await rememberClient(env.DB, key, answer);
  return noStore(
    new Response(answer, { status: response.status, headers: { "content-type": "application/json" } }),
  );
}

interface KnownClient {
  client_id: string;
  client_id_issued_at: number;
}

async function knownClient(d1: D1Database, key: string, now: number): Promise<KnownClient | undefined> {
  const value = await d1
    .prepare(
      "SELECT r.value FROM oauth_store r JOIN oauth_store c ON c.key = 'client:' || json_extract(r.value, '$.client_id') " +
        "WHERE r.key = ?1 AND (c.expires_at IS NULL OR c.expires_at > ?2)",
    )
    .bind(key, now)
    .first<string>("value");
  return value === null ? undefined : (JSON.parse(value) as KnownClient);
}

/** Kept as long as the client itself: the sweep takes it when the client is gone. */
async function rememberClient(d1: D1Database, key: string, answer: string): Promise<void> {
  const { client_id, client_id_issued_at } = JSON.parse(answer) as KnownClient;
  await d1
    .prepare(
      "INSERT INTO oauth_store (key, value, expires_at) VALUES (?1, ?2, ?3) ON CONFLICT (key) DO UPDATE SET value = ?2, expires_at = ?3",
    )
    .bind(key, JSON.stringify({ client_id, client_id_issued_at }), systemClock.now() + 365 * 24 * 3600 * 1000)
    .run();
}
