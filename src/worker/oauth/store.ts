import { OAuthError } from "@cloudflare/workers-oauth-provider";
import type { Clock } from "../../protocol/ports.ts";

/** How long an authorization code lives, in seconds; the library alone would give it ten minutes. */
const CODE_SECONDS = 60;

interface PutOptions {
  expiration?: number;
  expirationTtl?: number;
  metadata?: unknown;
}
interface Row {
  key: string;
  metadata: string | null;
}

/** Finds the clients that have no row of their own: the relay's, and those that publish a metadata document. */
export type ClientSource = (clientId: string) => Promise<object | null | undefined>;

/**
 * The part of a KV namespace that the OAuth library uses, over D1, for one request. Unlike KV it is
 * strongly consistent, and it closes the library's read-then-write races: a grant is only written over
 * if it still is what this request read, and a token only if its grant still exists. So a code is
 * exchanged once, and nothing outlives a revocation that ran at the same time.
 */
export class OAuthStore {
  readonly #d1: D1Database;
  readonly #clock: Clock;
  readonly #clients: ClientSource;
  readonly #grantsRead = new Map<string, string>();

  constructor(d1: D1Database, clock: Clock, clients: ClientSource) {
    this.#d1 = d1;
    this.#clock = clock;
    this.#clients = clients;
  }

  async get(key: string, options?: { type?: string }): Promise<unknown> {
    if (key.startsWith("client:")) {
      const client = await this.#clients(key.slice("client:".length));
      if (client !== undefined) return client;
    }
    const value = await this.#read(key);
    if (value === null) return null;
    if (key.startsWith("grant:")) this.#grantsRead.set(key, value);
    return options?.type === "json" ? JSON.parse(value) : value;
  }

  async put(key: string, value: string, options: PutOptions = {}): Promise<void> {
    const metadata = options.metadata === undefined ? null : JSON.stringify(options.metadata);
    const expiresAt = this.#expiry(key, options);
    const read = this.#grantsRead.get(key);
    if (read !== undefined) {
      const { meta } = await this.#d1
        .prepare(
          "UPDATE oauth_store SET value = ?2, metadata = ?3, expires_at = ?4 WHERE key = ?1 AND value = ?5",
        )
        .bind(key, value, metadata, expiresAt, read)
        .run();
      if (meta.changes === 0) throw lostGrant();
      this.#grantsRead.set(key, value);
    } else if (key.startsWith("token:")) {
      const { meta } = await this.#d1
        .prepare(
          "INSERT INTO oauth_store (key, value, metadata, expires_at) SELECT ?1, ?2, ?3, ?4 " +
            "WHERE EXISTS (SELECT 1 FROM oauth_store WHERE key = ?5)",
        )
        .bind(key, value, metadata, expiresAt, grantKeyOf(key))
        .run();
      if (meta.changes === 0) throw lostGrant();
    } else {
      await this.#d1
        .prepare(
          "INSERT INTO oauth_store (key, value, metadata, expires_at) VALUES (?1, ?2, ?3, ?4) " +
            "ON CONFLICT (key) DO UPDATE SET value = ?2, metadata = ?3, expires_at = ?4",
        )
        .bind(key, value, metadata, expiresAt)
        .run();
    }
  }

  async delete(key: string): Promise<void> {
    await this.#d1.prepare("DELETE FROM oauth_store WHERE key = ?1").bind(key).run();
  }

  async list(options: { prefix: string; limit?: number; cursor?: string }) {
    const limit = options.limit ?? 1000;
    const { results } = await this.#d1
      .prepare(
        "SELECT key, metadata FROM oauth_store WHERE key > ?1 AND key < ?2 " +
          "AND (expires_at IS NULL OR expires_at > ?3) ORDER BY key LIMIT ?4",
      )
      .bind(options.cursor ?? options.prefix, prefixEnd(options.prefix), this.#clock.now(), limit + 1)
      .all<Row>();
    const page = results.slice(0, limit);
    const keys = page.map((row) => ({
      name: row.key,
      metadata: row.metadata === null ? undefined : JSON.parse(row.metadata),
    }));
    if (results.length <= limit) return { keys, list_complete: true as const };
    return { keys, list_complete: false as const, cursor: page.at(-1)?.key ?? "" };
  }

  /** A token counts only while its grant is there. */
  #read(key: string): Promise<string | null> {
    const fresh = "SELECT value FROM oauth_store WHERE key = ?1 AND (expires_at IS NULL OR expires_at > ?2)";
    if (!key.startsWith("token:")) return this.#d1.prepare(fresh).bind(key, this.#clock.now()).first("value");
    return this.#d1
      .prepare(`${fresh} AND EXISTS (SELECT 1 FROM oauth_store WHERE key = ?3)`)
      .bind(key, this.#clock.now(), grantKeyOf(key))
      .first("value");
  }

  #expiry(key: string, { expiration, expirationTtl }: PutOptions): number | null {
    if (expiration !== undefined) return expiration * 1000;
    if (expirationTtl === undefined) return null;
    // A grant is written with a lifetime of its own only while its code waits to be exchanged.
    const seconds = key.startsWith("grant:") ? CODE_SECONDS : expirationTtl;
    return this.#clock.now() + seconds * 1000;
  }
}

/** `token:<account>:<grant>:<hash>` belongs to `grant:<account>:<grant>`. */
const grantKeyOf = (tokenKey: string): string => `grant:${tokenKey.split(":").slice(1, 3).join(":")}`;

/** The first key after every key that starts with `prefix`. */
const prefixEnd = (prefix: string): string =>
  prefix.slice(0, -1) + String.fromCharCode(prefix.charCodeAt(prefix.length - 1) + 1);

const lostGrant = () =>
  new OAuthError("invalid_grant", { description: "The grant was used or revoked in the meantime" });
