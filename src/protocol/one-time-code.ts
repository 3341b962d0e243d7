import { sha256Hex } from "./json.ts";
import type { RandomSource } from "./ports.ts";

// Crockford's base 32: no I, L, O or U, so that a code can be read aloud and typed.
const ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const LENGTH = 26;
const GROUP = 5;

/** A one-time code of 130 random bits, in groups of five characters: a sign-in link's or a device's enrolment. */
export function newOneTimeCode(random: RandomSource): string {
  const characters = Array.from(random.bytes(LENGTH), (b) => ALPHABET[b & 31]).join("");
  return characters.match(new RegExp(`.{1,${GROUP}}`, "g"))?.join("-") ?? "";
}

/** What the server keeps of a code. Case, spaces and dashes do not matter, nor whether O, I and L were read for 0 and 1. */
export function oneTimeCodeHash(code: string): Promise<string> {
  const normal = code.toUpperCase().replace(/[\s-]/g, "").replace(/O/g, "0").replace(/[IL]/g, "1");
  return sha256Hex(normal);
}
