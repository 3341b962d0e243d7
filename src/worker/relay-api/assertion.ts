import { compactVerify, decodeProtectedHeader, errors, importJWK } from "jose";
import * as z from "zod";
import { deviceId } from "../../protocol/ids.ts";
import { publicJwk } from "../../protocol/relay-api.ts";

// RFC 7523: a device proves itself with a short statement that it signs with its key.

/** How far in the future an assertion's end may be, in milliseconds, and how much the clocks may differ. */
const LIFETIME_MS = 60_000;
const LEEWAY_MS = 10_000;

const claims = z.object({
  iss: deviceId,
  sub: deviceId,
  aud: z.union([z.string(), z.array(z.string())]),
  exp: z.number(),
  nbf: z.number().optional(),
  iat: z.number().optional(),
  jti: z.string().min(16).max(128),
  /** What the device runs, for its owner to see. */
  client_version: z.string().max(64).optional(),
});
export type AssertionClaims = z.infer<typeof claims>;

/** The key id of an assertion, if it is an ES256 one; nothing about it is proven yet. */
export function assertionKeyId(assertion: string): string | undefined {
  try {
    const { alg, kid } = decodeProtectedHeader(assertion);
    return alg === "ES256" && typeof kid === "string" ? kid : undefined;
  } catch {
    return undefined;
  }
}

/** The assertion's claims, if the key signed it. */
export async function verifyAssertion(
  assertion: string,
  jwkJson: string,
): Promise<AssertionClaims | undefined> {
  const key = await importJWK(publicJwk.parse(JSON.parse(jwkJson)), "ES256");
  try {
    const { payload } = await compactVerify(assertion, key, { algorithms: ["ES256"] });
    return claims.safeParse(JSON.parse(new TextDecoder().decode(payload))).data;
  } catch (error) {
    if (error instanceof errors.JOSEError || error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** Whether signed claims hold: of this device, for this address, within their time by the server's clock. */
export function checkAssertion(
  c: AssertionClaims,
  expected: { deviceId: string; audience: string; now: number },
): "ok" | "invalid" | "clock_skew" {
  const audiences = typeof c.aud === "string" ? [c.aud] : c.aud;
  if (c.iss !== expected.deviceId || c.sub !== expected.deviceId) return "invalid";
  if (audiences.length !== 1 || audiences[0] !== expected.audience) return "invalid";
  const { now } = expected;
  const begins = Math.max(c.nbf ?? 0, c.iat ?? 0) * 1000;
  const ends = c.exp * 1000;
  if (ends <= now - LEEWAY_MS || ends > now + LIFETIME_MS + LEEWAY_MS || begins > now + LEEWAY_MS)
    return "clock_skew";
  return "ok";
}

/** When a used assertion may be forgotten: it could not be used again anyway. */
export const assertionForgottenAt = (c: AssertionClaims): number => c.exp * 1000 + LEEWAY_MS;
