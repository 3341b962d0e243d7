import { type CryptoKey, importJWK, type JWK } from "jose";
import * as z from "zod";

const verifying = z.object({
  kty: z.literal("EC"),
  crv: z.literal("P-256"),
  x: z.string(),
  y: z.string(),
  kid: z.string().min(1),
});
const signing = verifying.extend({ d: z.string() });
const keySet = z.object({ keys: z.tuple([signing], verifying) });

/** The keys that devices' tokens are signed and verified with. */
export interface SigningKeys {
  kid: string;
  sign: CryptoKey;
  /** By `kid`; the signing key is one of them. */
  verify: ReadonlyMap<string, CryptoKey>;
}

let imported: { from: string; keys: Promise<SigningKeys> } | undefined;

/** The keys in the secret `SIGNING_KEYS`, imported once for as long as the secret stays the same. */
export function signingKeys(secret: string): Promise<SigningKeys> {
  if (imported?.from !== secret) imported = { from: secret, keys: importKeys(secret) };
  return imported.keys;
}

async function importKeys(secret: string): Promise<SigningKeys> {
  const [first, ...others] = parseKeys(secret).keys;
  const verify = new Map<string, CryptoKey>();
  for (const jwk of [verifying.parse(first), ...others]) verify.set(jwk.kid, await importEs256(jwk));
  return { kid: first.kid, sign: await importEs256(first), verify };
}

/** The public halves of the keys, as a JSON Web Key Set: what a rotation keeps of them. */
export const publicKeySet = (secret: string): { keys: JWK[] } => ({
  keys: parseKeys(secret).keys.map((jwk) => ({ ...verifying.parse(jwk), alg: "ES256", use: "sig" })),
});

/** The secret is never quoted in an error. */
function parseKeys(secret: string) {
  let value: unknown;
  try {
    value = JSON.parse(secret);
  } catch {
    throw new Error("SIGNING_KEYS is not JSON. Make it with: npm run keys");
  }
  const parsed = keySet.safeParse(value);
  if (!parsed.success)
    throw new Error(
      "SIGNING_KEYS is no JSON Web Key Set that begins with a P-256 private key. Make it with: npm run keys",
    );
  return parsed.data;
}

async function importEs256(jwk: JWK): Promise<CryptoKey> {
  const key = await importJWK(jwk, "ES256");
  if (key instanceof Uint8Array) throw new Error("SIGNING_KEYS holds a symmetric key");
  return key;
}
