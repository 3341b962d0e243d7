import { calculateJwkThumbprint, exportJWK, generateKeyPair, type JWK } from "jose";

/** A new ES256 private key, its RFC 7638 thumbprint as its id. */
async function newKey(): Promise<JWK> {
  const { privateKey } = await generateKeyPair("ES256", { extractable: true });
  const jwk = await exportJWK(privateKey);
  return { ...jwk, kid: await calculateJwkThumbprint(jwk), alg: "ES256", use: "sig" };
}

/**
 * The secret SIGNING_KEYS with a new key: a JSON Web Key Set on one line. With the keys in use, their newest
 * is kept to verify what it signed; an older one has signed nothing that is still good.
 */
export async function newSigningKeys(inUse?: { keys: JWK[] }): Promise<string> {
  const [newest] = inUse?.keys ?? [];
  const { d: _private, ...verifying } = newest ?? {};
  return JSON.stringify({ keys: [await newKey(), ...(newest ? [verifying] : [])] });
}
