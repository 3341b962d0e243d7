import { RELAY_PATH } from "../../protocol/relay-api.ts";

/** The authorization server's name: the endpoint's bare origin. */
export const issuerOf = (request: Request): string => new URL(request.url).origin;

/** The protected resource that agents' tokens are for. */
export const mcpResource = (issuer: string): string => `${issuer}/mcp`;
/** The protected resource of the relay API, which is also the audience of devices' tokens. */
export const relayResource = (issuer: string): string => `${issuer}${RELAY_PATH}`;

/** Whether tokens and cookies may travel to this origin: https, or http on a loopback host. */
export function isSecureOrigin(origin: string): boolean {
  const { protocol, hostname } = new URL(origin);
  return protocol === "https:" || (protocol === "http:" && isLoopbackHost(hostname));
}

/** RFC 8252 section 7.3: `localhost`, `127.0.0.1`, `[::1]`. */
export const isLoopbackHost = (hostname: string): boolean =>
  hostname === "localhost" || hostname === "127.0.0.1" || hostname === "[::1]";

/**
 * The resource that RFC 8707's `resource` names, in its canonical spelling: scheme and host compare
 * without case, one trailing slash does not matter, and the bare origin (which some clients send) stands
 * for the endpoint. `undefined`: another's resource.
 */
export function canonicalResource(value: string, issuer: string): string | undefined {
  let url: URL;
  try {
    url = new URL(value);
  } catch {
    return undefined;
  }
  if (url.hash || url.search || url.username || url.password) return undefined;
  const named = url.origin + url.pathname.replace(/\/$/, "");
  if (named === issuer) return mcpResource(issuer);
  return [mcpResource(issuer), relayResource(issuer)].find((resource) => resource === named);
}
