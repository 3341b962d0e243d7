import { errors, type JWTPayload, jwtVerify, SignJWT } from "jose";
import * as z from "zod";
import { accountId, deviceId, projectId } from "../../protocol/ids.ts";
import type { AuthFailure, DeviceAuth } from "../auth.ts";
import type { Env } from "../env.ts";
import { bearerToken } from "../oauth/bearer.ts";
import { issuerOf, relayResource } from "../oauth/issuer.ts";
import { type SigningKeys, signingKeys } from "./signing-keys.ts";

/** How long a device's token lives, in seconds (design section 7: short-lived, verified without any look-up). */
export const DEVICE_TOKEN_SECONDS = 15 * 60;

const claims = z.object({
  sub: deviceId,
  account_id: accountId,
  projects: z.array(projectId),
  iat: z.number().int(),
});

/** A new access token of a device for the relay API: RFC 9068's form, ES256. */
export function issueDeviceToken(
  keys: SigningKeys,
  token: { issuer: string; deviceId: string; accountId: string; projects: string[]; now: number },
): Promise<string> {
  const seconds = Math.floor(token.now / 1000);
  return new SignJWT({ account_id: token.accountId, projects: token.projects })
    .setProtectedHeader({ alg: "ES256", typ: "at+jwt", kid: keys.kid })
    .setIssuer(token.issuer)
    .setAudience(relayResource(token.issuer))
    .setSubject(token.deviceId)
    .setIssuedAt(seconds)
    .setExpirationTime(seconds + DEVICE_TOKEN_SECONDS)
    .setJti(crypto.randomUUID())
    .sign(keys.sign);
}

/**
 * The device that a relay API request comes from, by its bearer token alone: no look-up. That the device
 * was removed since is the object's to know.
 */
export async function authenticateDevice(request: Request, env: Env): Promise<DeviceAuth | AuthFailure> {
  const token = bearerToken(request);
  if (token === undefined) return { error: "missing", description: "The request has no bearer token" };
  const payload = await verified(token, await signingKeys(env.SIGNING_KEYS), issuerOf(request));
  if ("error" in payload) return payload as AuthFailure;
  const parsed = claims.safeParse(payload);
  if (!parsed.success) return { error: "invalid", description: "The token is not a device's" };
  return {
    device_id: parsed.data.sub,
    account_id: parsed.data.account_id,
    projects: parsed.data.projects,
    issued_at: parsed.data.iat * 1000,
  };
}

async function verified(token: string, keys: SigningKeys, issuer: string): Promise<JWTPayload | AuthFailure> {
  try {
    const { payload } = await jwtVerify(
      token,
      ({ kid }) => {
        const key = keys.verify.get(kid ?? "");
        if (!key) throw new errors.JWKSNoMatchingKey();
        return key;
      },
      {
        issuer,
        audience: relayResource(issuer),
        algorithms: ["ES256"],
        typ: "at+jwt",
        requiredClaims: ["exp"],
      },
    );
    return payload;
  } catch (error) {
    if (error instanceof errors.JWTExpired) return { error: "invalid", description: "The token has expired" };
    if (error instanceof errors.JOSEError) return { error: "invalid", description: "The token is not valid" };
    throw error;
  }
}
