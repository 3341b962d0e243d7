import { LIMITS } from "./limits.ts";

/** A value that JSON can carry. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

/** Why a text's values would not arrive as they were written. `at` is a character offset. */
export interface JsonFault {
  readonly at: number;
  readonly text: string;
}

const NUMBER = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/y;

/**
 * Looks through a JSON text, before it is parsed, for what parsing would change or choke on: nesting over
 * `maxDepth`, numbers past the range of a double (`1e400` would become `null`, `1e-400` would become 0), and
 * whole numbers past 2^53 (their last digits would change). One pass, no recursion. It does not check the grammar:
 * `JSON.parse` does.
 */
export function findJsonFault(text: string, maxDepth: number = LIMITS.jsonDepth): JsonFault | undefined {
  let depth = 0;
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (c === 0x22) {
      i = endOfString(text, i);
    } else if (c === 0x5b || c === 0x7b) {
      if (++depth > maxDepth) return { at: i, text: `nests deeper than ${maxDepth} levels` };
    } else if (c === 0x5d || c === 0x7d) {
      depth--;
    } else if (c === 0x2d || (c >= 0x30 && c <= 0x39)) {
      NUMBER.lastIndex = i;
      const literal = NUMBER.exec(text)?.[0];
      if (literal === undefined) continue;
      const fault = numberFault(literal);
      if (fault) return { at: i, text: fault };
      i += literal.length - 1;
    }
  }
  return undefined;
}

/** The offset of the quote that closes the string opened at `start`, or the text's end. */
function endOfString(text: string, start: number): number {
  for (let i = start + 1; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (c === 0x5c) i++;
    else if (c === 0x22) return i;
  }
  return text.length;
}

function numberFault(literal: string): string | undefined {
  const value = Number(literal);
  const vanishes = value === 0 && /^[^eE]*[1-9]/.test(literal);
  if (!Number.isFinite(value) || vanishes)
    return "has a number outside the range of a double; send it as a string";
  // A double that JSON.stringify wrote out, such as 2**60, comes back as the same double.
  if (/^-?\d+$/.test(literal) && !Number.isSafeInteger(value) && String(value) !== literal)
    return "has a whole number past 2^53 that would lose digits; send it as a string";
  return undefined;
}

/**
 * JSON with every object's keys in UTF-16 order and nothing between the tokens (RFC 8785 section 3.2), so
 * that equal values have equal texts. The value comes from `JSON.parse` and nests no deeper than
 * `LIMITS.jsonDepth`.
 */
export function canonicalJson(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const members = Object.keys(value)
    .sort()
    .map((key) => `${JSON.stringify(key)}:${canonicalJson(value[key] as Json)}`);
  return `{${members.join(",")}}`;
}

/** Whether a parsed JSON value is an object, neither an array nor null. */
export const isJsonObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** The SHA-256 of a text's UTF-8 form, in hex. */
export async function sha256Hex(text: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return Array.from(new Uint8Array(digest), (b) => b.toString(16).padStart(2, "0")).join("");
}
