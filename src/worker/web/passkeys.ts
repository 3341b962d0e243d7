import {
  type AuthenticationResponseJSON,
  generateAuthenticationOptions,
  generateRegistrationOptions,
  type RegistrationResponseJSON,
  verifyAuthenticationResponse,
  verifyRegistrationResponse,
  type WebAuthnCredential,
} from "@simplewebauthn/server";
import * as z from "zod";
import type { PasskeyRow } from "../db/passkeys.ts";

// WebAuthn (level 3) for one endpoint: its host name is the relying party. No attestation is asked for, and
// the authenticator must know its person: a passkey is the only factor.

/** ES256, EdDSA and RS256 (COSE). */
const ALGORITHMS = [-7, -8, -257];
const TRANSPORTS = ["ble", "cable", "hybrid", "internal", "nfc", "smart-card", "usb"] as const;

const credential = z.object({
  id: z.string().max(1400),
  rawId: z.string().max(1400),
  type: z.literal("public-key"),
  response: z.object({
    clientDataJSON: z.string().max(4096),
    attestationObject: z.string().max(8192).optional(),
    authenticatorData: z.string().max(4096).optional(),
    signature: z.string().max(2048).optional(),
    userHandle: z.string().max(128).optional(),
    transports: z.array(z.string()).max(16).optional(),
  }),
  clientExtensionResults: z.object({}).default({}),
});
export type Credential = z.infer<typeof credential>;

/** A browser's answer, if it has the form of one. */
export function readCredential(text: string): Credential | undefined {
  try {
    return credential.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}

/** The challenge that an answer is to; nothing about it is proven yet. */
export function challengeOf({ response }: Credential): string {
  try {
    const data: unknown = JSON.parse(
      new TextDecoder().decode(Uint8Array.fromBase64(response.clientDataJSON, { alphabet: "base64url" })),
    );
    return z.object({ challenge: z.string() }).parse(data).challenge;
  } catch {
    return "";
  }
}

const rpId = (issuer: string): string => new URL(issuer).hostname;
const utf8 = (text: string) => Uint8Array.from(new TextEncoder().encode(text));

/** What the browser needs to make a passkey for an account. */
export const creationOptions = (issuer: string, account: { id: string; name: string }, have: PasskeyRow[]) =>
  generateRegistrationOptions({
    rpName: "Graph Relay",
    rpID: rpId(issuer),
    userID: utf8(account.id),
    userName: account.name,
    userDisplayName: account.name,
    attestationType: "none",
    excludeCredentials: have.map(({ credential_id }) => ({ id: credential_id })),
    authenticatorSelection: { residentKey: "required", userVerification: "required" },
    supportedAlgorithmIDs: ALGORITHMS,
    timeout: 120_000,
  });

/** What the browser needs to find a passkey by itself. */
export const requestOptions = (issuer: string) =>
  generateAuthenticationOptions({ rpID: rpId(issuer), userVerification: "required", timeout: 120_000 });

/** The new passkey in an answer, if it is one to this challenge at this endpoint. */
export async function newPasskey(
  answer: Credential,
  challenge: string,
  issuer: string,
): Promise<Pick<PasskeyRow, "credential_id" | "public_key" | "counter" | "transports"> | undefined> {
  const result = await refusedAsUndefined(() =>
    verifyRegistrationResponse({
      response: answer as RegistrationResponseJSON,
      expectedChallenge: challenge,
      expectedOrigin: issuer,
      expectedRPID: rpId(issuer),
      expectedType: "webauthn.create",
      requireUserVerification: true,
      supportedAlgorithmIDs: ALGORITHMS,
    }),
  );
  if (!result?.verified) return undefined;
  const made = result.registrationInfo.credential;
  const transports = (answer.response.transports ?? []).filter((name) =>
    (TRANSPORTS as readonly string[]).includes(name),
  );
  return {
    credential_id: made.id,
    public_key: made.publicKey.toBase64({ alphabet: "base64url", omitPadding: true }),
    counter: made.counter,
    transports: JSON.stringify(transports),
  };
}

/** The passkey's new counter, if the answer proves it; `undefined` if it does not, or the counter shows a copy. */
export async function provenCounter(
  answer: Credential,
  challenge: string,
  issuer: string,
  passkey: PasskeyRow,
): Promise<number | undefined> {
  const known: WebAuthnCredential = {
    id: passkey.credential_id,
    publicKey: Uint8Array.fromBase64(passkey.public_key, { alphabet: "base64url" }),
    counter: passkey.counter,
  };
  const result = await refusedAsUndefined(() =>
    verifyAuthenticationResponse({
      response: answer as AuthenticationResponseJSON,
      expectedChallenge: challenge,
      expectedOrigin: issuer,
      expectedRPID: rpId(issuer),
      expectedType: "webauthn.get",
      credential: known,
      requireUserVerification: true,
    }),
  );
  return result?.verified ? result.authenticationInfo.newCounter : undefined;
}

/** The library says by throwing that an answer is not right. */
async function refusedAsUndefined<T>(verify: () => Promise<T>): Promise<T | undefined> {
  try {
    return await verify();
  } catch {
    return undefined;
  }
}
