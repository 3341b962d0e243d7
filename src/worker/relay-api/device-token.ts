import { errors, type JWTPayload, jwtVerify, SignJWT } from "jose";
import * as z from "zod";
import { accountId, deviceId, projectId } from "../../protocol/ids.ts";
import { systemClock } from "../../protocol/ports.ts";
import type { AuthFailure, DeviceAuth } from "../auth.ts";
import type { Env } from "../env.ts";
import { bearerToken } from "../oauth/bearer.ts";
import { issuerOf, relayResource } from "../oauth/issuer.ts";
import { ExpiringMap } from "./expiring-map.ts";
import { type SigningKeys, signingKeys } from "./signing-keys.ts";

/** How long a device's token lives, in seconds (design section 7: short-lived, verified without any look-up). */
export const DEVICE_TOKEN_SECONDS = 15 * 60;

const claims = z.object({
  sub: deviceId,
  account_id: accountId,
  projects: z.array(projectId),
  iat: z.number().int(),
  exp: z.number().int(),
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
  const keys = await signingKeys(env.SIGNING_KEYS);
  const issuer = issuerOf(request);
  const known = rememberedBy(keys);
  const place = `${issuer} ${token}`;
  const remembered = known.get(place, systemClock.now());
  if (remembered) return remembered;
  const payload = await verified(token, keys, issuer);
  if ("error" in payload) return payload as AuthFailure;
  const parsed = claims.safeParse(payload);
  if (!parsed.success) return { error: "invalid", description: "The token is not a device's" };
  const device: DeviceAuth = {
    device_id: parsed.data.sub,
    account_id: parsed.data.account_id,
    projects: parsed.data.projects,
    issued_at: parsed.data.iat * 1000,
  };
  known.set(place, device, parsed.data.exp * 1000);
  return device;
}

/** Tokens of which a Worker's isolate remembers that they are good, at most: about a megabyte. */
const REMEMBERED_TOKENS = 1_000;

/** Good tokens under the keys that they were verified with: other keys, and nothing is remembered. */
const remembered = new WeakMap<SigningKeys, ExpiringMap<DeviceAuth>>();

/** A signature is checked once for a token, not on each of its calls: 0.1 to 0.2 ms of processor time each. */
function rememberedBy(keys: SigningKeys): ExpiringMap<DeviceAuth> {
  const known = remembered.get(keys) ?? new ExpiringMap<DeviceAuth>(REMEMBERED_TOKENS);
  remembered.set(keys, known);
  return known;
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
