import { isJsonObject, type JsonObject, sha256Hex } from "../../protocol/json.ts";
import { isLoopbackHost } from "./issuer.ts";

const DISPLAY_URLS = ["client_uri", "logo_uri", "policy_uri", "tos_uri"] as const;
const REDIRECTS_MAX = 20;
const REDIRECT_CHARACTERS = 2_000;
const NAME_CHARACTERS = 120;

/**
 * A registration request (RFC 7591) as this server takes it: public, authorization code with refresh,
 * unknown and unusable optional fields left out rather than refused. What decides where codes go stays as
 * it was sent.
 */
export function normalRegistration(
  body: unknown,
): { ok: true; metadata: JsonObject } | { ok: false; why: string } {
  if (!isJsonObject(body)) return { ok: false, why: "The registration must be a JSON object" };
  const redirects = body.redirect_uris;
  if (!Array.isArray(redirects) || redirects.length === 0)
    return { ok: false, why: "redirect_uris must list at least one address" };
  if (
    redirects.length > REDIRECTS_MAX ||
    redirects.some((u) => typeof u !== "string" || u.length > REDIRECT_CHARACTERS)
  )
    return {
      ok: false,
      why: `redirect_uris must be at most ${REDIRECTS_MAX} strings of ${REDIRECT_CHARACTERS} characters`,
    };
  const name = body.client_name;
  const metadata: JsonObject = {
    redirect_uris: redirects,
    client_name:
      typeof name === "string" && name.trim() !== "" ? name.slice(0, NAME_CHARACTERS) : "Unnamed client",
    token_endpoint_auth_method: "none",
    grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"],
  };
  for (const field of DISPLAY_URLS) {
    const value = body[field];
    if (
      typeof value === "string" &&
      /^https?:\/\//i.test(value) &&
      URL.canParse(value) &&
      value.length <= REDIRECT_CHARACTERS
    )
      metadata[field] = value;
  }
  return { ok: true, metadata };
}

/**
 * What makes two registrations the same client: the name and the redirects, whose ports do not count on
 * loopback, where a client takes whatever port is free.
 */
export function registrationKey(metadata: JsonObject): Promise<string> {
  const redirects = (metadata.redirect_uris as string[]).map((uri) => {
    if (!URL.canParse(uri)) return uri;
    const url = new URL(uri);
    if (url.protocol === "http:" && isLoopbackHost(url.hostname)) url.port = "";
    return url.href;
  });
  return sha256Hex(JSON.stringify([metadata.client_name, redirects.sort()]));
}
