import type { ProjectQueue } from "../durable/project-queue.ts";

/** What the Worker is bound to (wrangler.toml). */
export interface Env {
  DB: D1Database;
  PROJECT_QUEUE: DurableObjectNamespace<ProjectQueue>;
  /** JSON Web Key Set of ES256 private keys: the first signs, all verify. A secret. */
  SIGNING_KEYS: string;
}
