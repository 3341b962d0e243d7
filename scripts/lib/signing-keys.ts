import { calculateJwkThumbprint, exportJWK, generateKeyPair, type JWK } from "jose";

/** A new ES256 private key, its RFC 7638 thumbprint as its id. */
async function newKey(): Promise<JWK> {
  const { privateKey } = await generateKeyPair("ES256", { extractable: true });
  const jwk = await exportJWK(privateKey);
  return { ...jwk, kid: await calculateJwkThumbprint(jwk), alg: "ES256", use: "sig" };
}

/** The secret SIGNING_KEYS with one new key: a JSON Web Key Set on one line. */
export async function newSigningKeys(): Promise<string> {
  return JSON.stringify({ keys: [await newKey()] });
}
