import type { AssertionSigner, RelayClock, Transport } from "./ports.ts";

/** The platform's time. */
export const systemClock: RelayClock = {
  wall: () => Date.now(),
  monotonic: () => performance.now(),
  sleep: (ms, signal) =>
    new Promise((resolve) => {
      if (signal?.aborted) return resolve();
      const done = () => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", done);
        resolve();
      };
      // A longer timeout would overflow and fire at once.
      const timer = setTimeout(done, Math.min(ms, 2 ** 31 - 1));
      signal?.addEventListener("abort", done);
    }),
};

/** The platform's `fetch`. */
export const systemTransport: Transport = (url, init) => fetch(url, init);

/** How long an assertion is good for, in seconds: the server takes at most 60. */
const ASSERTION_SECONDS = 50;

/** Signs with the device's private key, a JWK (RFC 7523; ES256). */
export function createSigner(device: {
  device_id: string;
  private_jwk: string;
  client_version: string;
}): AssertionSigner {
  return {
    async sign(audience, serverTime) {
      const { calculateJwkThumbprint, importJWK, SignJWT } = await import("jose");
      const jwk = JSON.parse(device.private_jwk) as Parameters<typeof importJWK>[0];
      const now = Math.floor(serverTime / 1_000);
      return new SignJWT({ client_version: device.client_version })
        .setProtectedHeader({ alg: "ES256", kid: await calculateJwkThumbprint(jwk) })
        .setIssuer(device.device_id)
        .setSubject(device.device_id)
        .setAudience(audience)
        .setJti(crypto.randomUUID())
        .setIssuedAt(now)
        .setExpirationTime(now + ASSERTION_SECONDS)
        .sign(await importJWK(jwk, "ES256"));
    },
  };
}
