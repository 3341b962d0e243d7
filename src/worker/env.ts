import type { ProjectQueue } from "../durable/project-queue.ts";

/** What the Worker is bound to (wrangler.toml). */
export interface Env {
  DB: D1Database;
  PROJECT_QUEUE: DurableObjectNamespace<ProjectQueue>;
  /** JSON Web Key Set of ES256 keys: the first is private and signs, all verify. A secret. */
  SIGNING_KEYS: string;

  /** Calls a minute from one address or of one account. */
  LIMIT_SIGN_IN: RateLimit;
  LIMIT_ENROLMENT: RateLimit;
  LIMIT_REGISTRATION: RateLimit;
  LIMIT_TOKENS: RateLimit;

  /** Who may make an account: `open` to all, by `invite` (also when unset), or `closed`. */
  SIGNUP_MODE?: string;
  /** An OpenID Connect provider that owners may sign in through. All three, or none; the secret may be absent for a public client. */
  OIDC_ISSUER?: string;
  OIDC_CLIENT_ID?: string;
  OIDC_CLIENT_SECRET?: string;
}
