import { createLocalJWKSet, type JSONWebKeySet, jwtVerify } from "jose";
import * as z from "zod";
import { sha256Hex } from "../../protocol/json.ts";
import type { Clock } from "../../protocol/ports.ts";
import type { Env } from "../env.ts";

// The client side of OpenID Connect (core 1.0, discovery, RFC 7636, RFC 9207), for the one provider that the
// operator configures.

const FETCH_MS = 5_000;
const ALGORITHMS = ["ES256", "RS256", "PS256", "EdDSA"];
const CLOCK_LEEWAY_SECONDS = 60;

/** The operator's provider. */
export interface Provider {
  issuer: string;
  clientId: string;
  clientSecret: string | undefined;
}

/** The provider in the settings, if there is one. */
export function providerOf(env: Env): Provider | undefined {
  if (!env.OIDC_ISSUER || !env.OIDC_CLIENT_ID) return undefined;
  return { issuer: env.OIDC_ISSUER, clientId: env.OIDC_CLIENT_ID, clientSecret: env.OIDC_CLIENT_SECRET };
}

/** Why a sign-in through the provider failed, for the person. */
export class ProviderError extends Error {}

const configuration = z.object({
  issuer: z.string(),
  authorization_endpoint: z.url(),
  token_endpoint: z.url(),
  jwks_uri: z.url(),
});
type Configuration = z.infer<typeof configuration>;

/** What this browser must remember until it comes back. */
export interface ProviderLogin {
  state: string;
  nonce: string;
  verifier: string;
}

/** The address to send the browser to. */
export async function loginAddress(
  provider: Provider,
  login: ProviderLogin,
  redirectUri: string,
  fetcher: typeof fetch,
): Promise<string> {
  const { authorization_endpoint } = await discover(provider, fetcher);
  const url = new URL(authorization_endpoint);
  const parameters = {
    response_type: "code",
    client_id: provider.clientId,
    redirect_uri: redirectUri,
    scope: "openid profile",
    state: login.state,
    nonce: login.nonce,
    code_challenge: await challengeFor(login.verifier),
    code_challenge_method: "S256",
  };
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
  return url.href;
}

/** Who signed in, from the code that the browser came back with: the ID token, checked in full. */
export async function finishLogin(
  provider: Provider,
  login: ProviderLogin,
  answer: URLSearchParams,
  redirectUri: string,
  ports: { fetcher: typeof fetch; clock: Clock },
): Promise<{ subject: string; name: string | undefined }> {
  const code = answer.get("code");
  if (!code) throw new ProviderError("The provider did not sign you in.");
  const iss = answer.get("iss");
  if (iss !== null && iss !== provider.issuer)
    throw new ProviderError("The answer is from another provider.");
  const config = await discover(provider, ports.fetcher);
  const tokens = await redeem(
    provider,
    config,
    { code, verifier: login.verifier, redirectUri },
    ports.fetcher,
  );
  const keys = createLocalJWKSet((await getJson(config.jwks_uri, ports.fetcher)) as JSONWebKeySet);
  try {
    const { payload } = await jwtVerify(tokens.id_token, keys, {
      issuer: provider.issuer,
      audience: provider.clientId,
      algorithms: ALGORITHMS,
      clockTolerance: CLOCK_LEEWAY_SECONDS,
      currentDate: new Date(ports.clock.now()),
      requiredClaims: ["sub", "exp", "iat", "nonce"],
    });
    if (payload.nonce !== login.nonce || !payload.sub) throw new Error("nonce");
    if (Array.isArray(payload.aud) && payload.aud.length > 1 && payload.azp !== provider.clientId)
      throw new Error("azp");
    const name = payload.name;
    return { subject: payload.sub, name: typeof name === "string" ? name : undefined };
  } catch {
    throw new ProviderError("The provider's answer could not be verified.");
  }
}

async function discover(provider: Provider, fetcher: typeof fetch): Promise<Configuration> {
  const address = `${provider.issuer.replace(/\/$/, "")}/.well-known/openid-configuration`;
  const parsed = configuration.safeParse(await getJson(address, fetcher));
  if (!parsed.success || parsed.data.issuer !== provider.issuer)
    throw new ProviderError("The provider's configuration is not the configured issuer's.");
  return parsed.data;
}

async function redeem(
  provider: Provider,
  config: Configuration,
  { code, verifier, redirectUri }: { code: string; verifier: string; redirectUri: string },
  fetcher: typeof fetch,
): Promise<{ id_token: string }> {
  const body = new URLSearchParams({
    grant_type: "authorization_code",
    code,
    redirect_uri: redirectUri,
    client_id: provider.clientId,
    code_verifier: verifier,
  });
  if (provider.clientSecret !== undefined) body.set("client_secret", provider.clientSecret);
  const answer = await getJson(config.token_endpoint, fetcher, {
    method: "POST",
    headers: { "content-type": "application/x-www-form-urlencoded", accept: "application/json" },
    body: body.toString(),
  });
  const parsed = z.object({ id_token: z.string() }).safeParse(answer);
  if (!parsed.success) throw new ProviderError("The provider gave no ID token.");
  return parsed.data;
}

async function getJson(address: string, fetcher: typeof fetch, init: RequestInit = {}): Promise<unknown> {
  try {
    const response = await fetcher(address, {
      ...init,
      redirect: "manual",
      signal: AbortSignal.timeout(FETCH_MS),
    });
    if (!response.ok) throw new Error(String(response.status));
    return await response.json();
  } catch {
    throw new ProviderError("The provider could not be reached, or refused.");
  }
}

/** RFC 7636 section 4.2: the S256 challenge. */
async function challengeFor(verifier: string): Promise<string> {
  return Uint8Array.fromHex(await sha256Hex(verifier)).toBase64({ alphabet: "base64url", omitPadding: true });
}
