/**
 * Clients that are named by the address of a document of theirs. Where the tests run their hosts cannot be
 * reached, so the endpoint is given each document as it keeps one that it has fetched: what the client sends
 * is its own, what its host says of it is from here. Redirects are as published: loopback, without a port.
 */
const DOCUMENTS: Record<string, string> = {
  "https://claude.ai/oauth/claude-code-client-metadata": "Claude Code",
  "https://chatgpt.com/oauth/codex/client.json": "Codex",
};
const DAY_MS = 24 * 3600 * 1000;

/** The SQL that gives an endpoint the documents, fresh for a day from `now`. */
export const documentsAsPublished = (now: number): string[] =>
  Object.entries(DOCUMENTS).map(([clientId, clientName]) => {
    const client = {
      clientId,
      clientName,
      redirectUris: ["http://localhost/callback", "http://127.0.0.1/callback"],
      grantTypes: ["authorization_code", "refresh_token"],
      responseTypes: ["code"],
      tokenEndpointAuthMethod: "none",
    };
    const kept = JSON.stringify({ client, fresh_until: now + DAY_MS });
    return `INSERT INTO oauth_store (key, value, expires_at) VALUES ('document:${clientId}', '${kept}', ${now + DAY_MS})`;
  });
