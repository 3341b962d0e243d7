import { isJsonObject } from "../../protocol/json.ts";
import { isLoopbackHost } from "./issuer.ts";

// Client ID Metadata Documents: a client whose id is the address of a document that describes it.

/** A client as the OAuth library keeps it. All are public: PKCE, not a secret, ties a code to who asked. */
export interface OAuthClient {
  clientId: string;
  clientName: string;
  clientUri?: string;
  redirectUris: string[];
  grantTypes: string[];
  responseTypes: string[];
  tokenEndpointAuthMethod: "none";
}

/** Why a client's document could not be used. */
export class ClientMetadataError extends Error {}

const DOCUMENT_BYTES = 5 * 1024;
const FETCH_MS = 3_000;
const NAME_CHARACTERS = 120;
const REDIRECTS_MAX = 40;
/** How long a document is believed without asking again, in seconds, whatever its Cache-Control says. */
const FRESH_MIN = 5 * 60;
const FRESH_MAX = 24 * 3600;

/** Whether a client id is the address of a document. */
export const isMetadataUrl = (clientId: string): boolean => /^https:\/\//i.test(clientId);

/** The document's address, if it is one that may be fetched: a public host name, port 443, a path without dot segments. */
function metadataUrl(clientId: string): URL {
  const refuse = (why: string) => new ClientMetadataError(`The client's id is no usable address: ${why}.`);
  let url: URL;
  try {
    url = new URL(clientId);
  } catch {
    throw refuse("it cannot be parsed");
  }
  if (url.protocol !== "https:") throw refuse("it must be https");
  if (url.username || url.password || url.hash) throw refuse("it must have no user or fragment");
  if (url.port !== "") throw refuse("it must be on port 443");
  if (url.pathname === "/") throw refuse("it must have a path");
  // What the URL parser changes (dot segments, backslashes, upper case in the host) is not the same address.
  if (url.href !== clientId) throw refuse("it must be in its canonical spelling");
  if (!isPublicHost(url.hostname)) throw refuse("its host is not a public name");
  return url;
}

/** Whether a host is a public DNS name rather than an address, a local name, or one of the reserved ones. */
function isPublicHost(hostname: string): boolean {
  if (isLoopbackHost(hostname) || hostname.startsWith("[") || !hostname.includes(".")) return false;
  if (/^[\d.]+$/.test(hostname) || hostname.endsWith(".")) return false;
  return !/\.(?:localhost|local|internal|intranet|lan|home|arpa|test|invalid|onion)$/.test(hostname);
}

/** Fetches and reads the document: no redirects, at most 5 kB of JSON, three seconds in all. */
export async function fetchClient(
  clientId: string,
  fetcher: typeof fetch,
): Promise<{ client: OAuthClient; freshSeconds: number }> {
  const url = metadataUrl(clientId);
  try {
    const response = await fetcher(url.href, {
      headers: { accept: "application/json" },
      redirect: "manual",
      signal: AbortSignal.timeout(FETCH_MS),
    });
    if (response.status !== 200)
      throw new ClientMetadataError(`The client's document answers ${response.status}.`);
    if (!/^application\/(?:[\w.-]+\+)?json\b/i.test(response.headers.get("content-type") ?? ""))
      throw new ClientMetadataError("The client's document is not JSON.");
    const text = await readBounded(response);
    return {
      client: parseClient(clientId, text),
      freshSeconds: freshSeconds(response.headers.get("cache-control")),
    };
  } catch (error) {
    if (error instanceof ClientMetadataError) throw error;
    throw new ClientMetadataError("The client's document could not be fetched.");
  }
}

async function readBounded(response: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response.body ?? []) {
    size += chunk.byteLength;
    if (size > DOCUMENT_BYTES)
      throw new ClientMetadataError(`The client's document is over ${DOCUMENT_BYTES} bytes.`);
    chunks.push(chunk);
  }
  return new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(
    await new Blob(chunks).arrayBuffer(),
  );
}

/** A document's text as a client. It must name its own address, itself and where its answers go. */
function parseClient(clientId: string, text: string): OAuthClient {
  const refuse = (why: string) => new ClientMetadataError(`The client's document ${why}.`);
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch {
    throw refuse("is not JSON");
  }
  if (!isJsonObject(document)) throw refuse("is no JSON object");
  if (document.client_id !== clientId) throw refuse("is another client's: its client_id is not its address");
  if ("client_secret" in document) throw refuse("holds a secret");
  const name = document.client_name;
  if (typeof name !== "string" || name.trim() === "") throw refuse("has no client_name");
  const redirects = document.redirect_uris;
  if (!Array.isArray(redirects) || redirects.length === 0) throw refuse("has no redirect_uris");
  if (redirects.length > REDIRECTS_MAX || !redirects.every((uri) => typeof uri === "string"))
    throw refuse(`must have at most ${REDIRECTS_MAX} redirect_uris, all strings`);
  const types = document.response_types;
  if (types !== undefined && !(Array.isArray(types) && types.includes("code")))
    throw refuse("does not use the authorization code flow");
  return {
    clientId,
    clientName: name.slice(0, NAME_CHARACTERS),
    redirectUris: redirects as string[],
    grantTypes: ["authorization_code", "refresh_token"],
    responseTypes: ["code"],
    tokenEndpointAuthMethod: "none",
  };
}

/** How long a document with this Cache-Control is believed, in seconds, within five minutes and a day. */
function freshSeconds(cacheControl: string | null): number {
  const age = /(?:^|,)\s*max-age\s*=\s*"?(\d+)/i.exec(cacheControl ?? "")?.[1];
  return Math.min(Math.max(Number(age ?? FRESH_MIN), FRESH_MIN), FRESH_MAX);
}
