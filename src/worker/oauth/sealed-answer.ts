// A refresh's answer is kept under a key that only the refresh token yields, so that what D1 holds opens nothing.

const INFO = new TextEncoder().encode("graph-relay refresh answer 1");

async function keyFrom(token: string): Promise<CryptoKey> {
  const secret = await crypto.subtle.importKey("raw", new TextEncoder().encode(token), "HKDF", false, [
    "deriveKey",
  ]);
  return crypto.subtle.deriveKey(
    { name: "HKDF", hash: "SHA-256", salt: new Uint8Array(0), info: INFO },
    secret,
    { name: "AES-GCM", length: 256 },
    false,
    ["encrypt", "decrypt"],
  );
}

/** The answer, encrypted (AES-256-GCM) with a key made from the token (HKDF-SHA-256), in base64. */
export async function seal(token: string, answer: string): Promise<string> {
  const iv = crypto.getRandomValues(new Uint8Array(12));
  const sealed = await crypto.subtle.encrypt(
    { name: "AES-GCM", iv },
    await keyFrom(token),
    new TextEncoder().encode(answer),
  );
  return new Uint8Array([...iv, ...new Uint8Array(sealed)]).toBase64();
}

/** The answer that `seal` was given. */
export async function unseal(token: string, sealed: string): Promise<string> {
  const bytes = Uint8Array.fromBase64(sealed);
  const opened = await crypto.subtle.decrypt(
    { name: "AES-GCM", iv: bytes.subarray(0, 12) },
    await keyFrom(token),
    bytes.subarray(12),
  );
  return new TextDecoder().decode(opened);
}
