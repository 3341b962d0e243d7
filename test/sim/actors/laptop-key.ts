import { createHash } from "node:crypto";
import { calculateJwkThumbprint, importJWK, SignJWT } from "jose";
import { newUuid } from "../../../src/protocol/ids.ts";
import type { RandomSource } from "../../../src/protocol/ports.ts";

/** The key of a device: made from its id, so that no world needs to draw one. */
export function publicJwk(deviceId: string) {
  const part = (name: string) => createHash("sha256").update(`${name} of ${deviceId}`).digest("base64url");
  return { kty: "EC", crv: "P-256", x: part("x"), y: part("y") };
}

export const privateJwk = (deviceId: string) => ({ ...publicJwk(deviceId), d: "d".repeat(43) });

export const thumbprint = (deviceId: string): Promise<string> => calculateJwkThumbprint(publicJwk(deviceId));

/** The statement by which a device gets its token (RFC 7523), signed as jose signs. */
export async function signAssertion(
  deviceId: string,
  audience: string,
  serverTime: number,
  random: RandomSource,
): Promise<string> {
  const seconds = Math.floor(serverTime / 1000);
  return new SignJWT({})
    .setProtectedHeader({ alg: "ES256", kid: await thumbprint(deviceId) })
    .setIssuer(deviceId)
    .setSubject(deviceId)
    .setAudience(audience)
    .setIssuedAt(seconds)
    .setExpirationTime(seconds + 60)
    .setJti(newUuid(random))
    .sign(await importJWK(privateJwk(deviceId), "ES256"));
}
