import type { Clock } from "../../protocol/ports.ts";
import { LOGIN_CLIENT } from "../../protocol/relay-api.ts";
import { ClientMetadataError, fetchClient, isMetadataUrl, type OAuthClient } from "./client-metadata.ts";
import type { ClientSource } from "./store.ts";

/** The relay's own login, known to every endpoint without registration. */
const LOGIN: OAuthClient = {
  clientId: LOGIN_CLIENT.client_id,
  clientName: "Graph Relay",
  redirectUris: ["127.0.0.1", "localhost", "[::1]"].map(
    (host) => `http://${host}${LOGIN_CLIENT.redirect_path}`,
  ),
  grantTypes: ["authorization_code"],
  responseTypes: ["code"],
  tokenEndpointAuthMethod: "none",
};

/** How long a document's copy is kept for when its host fails, and for the token endpoint, which asks no stranger's server. */
const KEPT_MS = 90 * 24 * 3600 * 1000;

interface KeptClient {
  client: OAuthClient;
  fresh_until: number;
}

export interface ClientPorts {
  d1: D1Database;
  clock: Clock;
  fetcher: typeof fetch;
}

/**
 * Clients that have no registration: the relay's login, and those named by their document's address.
 * `mayFetch` is for the consent page alone, behind the owner's sign-in, so that no stranger can make the
 * server fetch; elsewhere the copy kept from the last consent serves. A failing host leaves the copy in force.
 */
export function clientSource(ports: ClientPorts, mayFetch: boolean): ClientSource {
  return async (clientId) => {
    if (clientId === LOGIN.clientId) return LOGIN;
    if (!isMetadataUrl(clientId)) return undefined;
    const kept = await readKept(ports, clientId);
    if (kept && (!mayFetch || kept.fresh_until > ports.clock.now())) return kept.client;
    if (!mayFetch) return null;
    try {
      const { client, freshSeconds } = await fetchClient(clientId, ports.fetcher);
      await keep(ports, { client, fresh_until: ports.clock.now() + freshSeconds * 1000 });
      return client;
    } catch (error) {
      if (kept && error instanceof ClientMetadataError) return kept.client;
      throw error;
    }
  };
}

const keyOf = (clientId: string): string => `document:${clientId}`;

async function readKept({ d1, clock }: ClientPorts, clientId: string): Promise<KeptClient | undefined> {
  const value = await d1
    .prepare("SELECT value FROM oauth_store WHERE key = ?1 AND expires_at > ?2")
    .bind(keyOf(clientId), clock.now())
    .first<string>("value");
  return value === null ? undefined : (JSON.parse(value) as KeptClient);
}

async function keep({ d1, clock }: ClientPorts, kept: KeptClient): Promise<void> {
  await d1
    .prepare(
      "INSERT INTO oauth_store (key, value, expires_at) VALUES (?1, ?2, ?3) " +
        "ON CONFLICT (key) DO UPDATE SET value = ?2, expires_at = ?3",
    )
    .bind(keyOf(kept.client.clientId), JSON.stringify(kept), clock.now() + KEPT_MS)
    .run();
}
