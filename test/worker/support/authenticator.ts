import type {
  PublicKeyCredentialCreationOptionsJSON,
  PublicKeyCredentialRequestOptionsJSON,
} from "@simplewebauthn/server";

// A passkey's authenticator and its browser in software: WebAuthn level 3, ES256, attestation "none".

const base64url = (bytes: Uint8Array): string => bytes.toBase64({ alphabet: "base64url", omitPadding: true });
const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text);
const sha256 = async (bytes: Uint8Array): Promise<Uint8Array> =>
  new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
const join = (...parts: (Uint8Array | number[])[]): Uint8Array =>
  new Uint8Array(parts.flatMap((part) => [...part]));

/** What a test may have the authenticator do wrong. */
export interface Wrong {
  origin?: string;
  rpId?: string;
  challenge?: string;
  /** Answers without having known its person. */
  userVerified?: boolean;
  counter?: number;
  type?: string;
}

interface Held {
  id: Uint8Array;
  keys: CryptoKeyPair;
  counter: number;
}

export class Authenticator {
  readonly #origin: string;
  readonly #held: Held[] = [];

  constructor(origin: string) {
    this.#origin = origin;
  }

  /** Makes a passkey: what the page's script would send. */
  async create(options: PublicKeyCredentialCreationOptionsJSON, wrong: Wrong = {}): Promise<string> {
    const keys = await crypto.subtle.generateKey({ name: "ECDSA", namedCurve: "P-256" }, true, [
      "sign",
      "verify",
    ]);
    const held: Held = {
      id: crypto.getRandomValues(new Uint8Array(32)),
      keys: keys as CryptoKeyPair,
      counter: 0,
    };
    this.#held.push(held);
    const jwk = (await crypto.subtle.exportKey("jwk", held.keys.publicKey)) as JsonWebKey;
    const coordinate = (value: string | undefined) =>
      Uint8Array.fromBase64(value ?? "", { alphabet: "base64url" });
    // COSE: {1: 2 (EC2), 3: -7 (ES256), -1: 1 (P-256), -2: x, -3: y}
    const cose = join(
      [0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01, 0x21, 0x58, 32],
      coordinate(jwk.x),
      [0x22, 0x58, 32],
      coordinate(jwk.y),
    );
    const credentialData = join(new Uint8Array(16), [0, held.id.length], held.id, cose);
    const authData = join(await this.#authData(options.rp.id ?? "", 0x40, held, wrong), credentialData);
    // CBOR: {"fmt": "none", "attStmt": {}, "authData": bytes}
    const attestationObject = join(
      [0xa3, 0x63],
      utf8("fmt"),
      [0x64],
      utf8("none"),
      [0x67],
      utf8("attStmt"),
      [0xa0, 0x68],
      utf8("authData"),
      [0x58, authData.length],
      authData,
    );
    return this.#answer(held, {
      clientDataJSON: base64url(this.#clientData("webauthn.create", options.challenge, wrong)),
      attestationObject: base64url(attestationObject),
      transports: ["internal"],
    });
  }

  /** Proves the newest passkey: what the page's script would send. */
  async get(options: PublicKeyCredentialRequestOptionsJSON, wrong: Wrong = {}): Promise<string> {
    const held = this.#held.at(-1);
    if (!held) throw new Error("the authenticator holds no passkey");
    held.counter++;
    const authData = await this.#authData(options.rpId ?? "", 0, held, wrong);
    const clientData = this.#clientData("webauthn.get", options.challenge, wrong);
    const signed = join(authData, await sha256(clientData));
    const raw = new Uint8Array(
      await crypto.subtle.sign({ name: "ECDSA", hash: "SHA-256" }, held.keys.privateKey, signed),
    );
    return this.#answer(held, {
      clientDataJSON: base64url(clientData),
      authenticatorData: base64url(authData),
      signature: base64url(der(raw)),
    });
  }

  async #authData(rpId: string, flags: number, held: Held, wrong: Wrong): Promise<Uint8Array> {
    const verified = wrong.userVerified === false ? 0 : 0x04;
    const counter = wrong.counter ?? held.counter;
    return join(
      await sha256(utf8(wrong.rpId ?? rpId)),
      [flags | 0x01 | verified],
      [counter >>> 24, counter >>> 16, counter >>> 8, counter].map((b) => b & 255),
    );
  }

  #clientData(type: string, challenge: string, wrong: Wrong): Uint8Array {
    return utf8(
      JSON.stringify({
        type: wrong.type ?? type,
        challenge: wrong.challenge ?? challenge,
        origin: wrong.origin ?? this.#origin,
        crossOrigin: false,
      }),
    );
  }

  #answer({ id }: Held, response: Record<string, unknown>): string {
    return JSON.stringify({
      id: base64url(id),
      rawId: base64url(id),
      type: "public-key",
      response,
      clientExtensionResults: {},
    });
  }
}

/** A signature's two numbers as ASN.1, as authenticators send them. */
function der(raw: Uint8Array): Uint8Array {
  const integer = (bytes: Uint8Array) => {
    let start = 0;
    while (start < bytes.length - 1 && bytes[start] === 0) start++;
    const value = bytes.subarray(start);
    const padded = (value[0] ?? 0) > 127 ? join([0], value) : value;
    return join([0x02, padded.length], padded);
  };
  const body = join(integer(raw.subarray(0, 32)), integer(raw.subarray(32)));
  return join([0x30, body.length], body);
}
