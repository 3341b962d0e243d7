import { setImmediate as nextTurn } from "node:timers/promises";

/** Characters looked at before others get a turn. */
const SLICE = 500_000;
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
const LITERALS: ReadonlySet<string> = new Set(["true", "false", "null"]);
const MAX_WORD = 2_000;

/** What may come next, between the tokens of JSON. */
type Expected = "value" | "value or ]" | "key" | "key or }" | "colon" | "comma or end" | "nothing";

/**
 * Whether a text is JSON (RFC 8259) that nests no deeper than `maxDepth`, without building its value: a Graph's process can write
 * anything for a result, and whoever reads the record parses it. Gives way every half a million characters.
 */
export async function isJsonText(text: string, maxDepth: number): Promise<boolean> {
  const scanner = createScanner(maxDepth);
  for (let start = 0; start < text.length; start += SLICE) {
    if (start > 0) await nextTurn();
    if (!scanner.feed(text, start, Math.min(text.length, start + SLICE))) return false;
  }
  return scanner.isWhole();
}

function createScanner(maxDepth: number) {
  const within: ("array" | "object")[] = [];
  let expected: Expected = "value";
  let inString: "key" | "value" | undefined;
  /** Of an escape in a string: -1 after the backslash, then the hex digits that are still to come. */
  let escaping = 0;
  let word = "";

  const afterValue = (): void => {
    expected = within.length === 0 ? "nothing" : "comma or end";
  };
  const open = (kind: "array" | "object"): boolean => {
    if (expected !== "value" && expected !== "value or ]") return false;
    expected = kind === "array" ? "value or ]" : "key or }";
    return within.push(kind) <= maxDepth;
  };
  const close = (kind: "array" | "object", empty: Expected): boolean => {
    if (within.at(-1) !== kind || (expected !== "comma or end" && expected !== empty)) return false;
    within.pop();
    afterValue();
    return true;
  };
  const inText = (c: number): boolean => {
    if (escaping === -1) {
      escaping = c === 0x75 ? 4 : 0;
      return c === 0x75 || ESCAPED.has(c);
    }
    if (escaping > 0) {
      escaping--;
      return isHex(c);
    }
    if (c === 0x5c) escaping = -1;
    else if (c === 0x22) {
      if (inString === "key") expected = "colon";
      else afterValue();
      inString = undefined;
    }
    return c >= 0x20;
  };
  const quote = (): boolean => {
    if (expected === "key" || expected === "key or }") inString = "key";
    else if (expected === "value" || expected === "value or ]") inString = "value";
    return inString !== undefined;
  };
  const comma = (): boolean => {
    if (expected !== "comma or end") return false;
    expected = within.at(-1) === "object" ? "key" : "value";
    return true;
  };
  const colon = (): boolean => {
    if (expected !== "colon") return false;
    expected = "value";
    return true;
  };
  const endWord = (): boolean => {
    const isValue = LITERALS.has(word) || NUMBER.test(word);
    word = "";
    const isPlace = expected === "value" || expected === "value or ]";
    afterValue();
    return isValue && isPlace;
  };
  const mark = (c: number): boolean => {
    if (c === 0x7b) return open("object");
    if (c === 0x5b) return open("array");
    if (c === 0x7d) return close("object", "key or }");
    if (c === 0x5d) return close("array", "value or ]");
    if (c === 0x22) return quote();
    if (c === 0x2c) return comma();
    if (c === 0x3a) return colon();
    return isSpace(c);
  };
  return {
    /** False as soon as it cannot be JSON any more. */
    feed(text: string, from: number, to: number): boolean {
      for (let i = from; i < to; i++) {
        const c = text.charCodeAt(i);
        if (inString !== undefined) {
          if (!inText(c)) return false;
        } else if (isWordPart(c)) {
          word += text[i];
          if (word.length > MAX_WORD) return false;
        } else if ((word !== "" && !endWord()) || !mark(c)) return false;
      }
      return true;
    },
    isWhole: () => inString === undefined && (word === "" || endWord()) && expected === "nothing",
  };
}

/** `"`, `\`, `/`, b, f, n, r, t */
const ESCAPED: ReadonlySet<number> = new Set([0x22, 0x5c, 0x2f, 0x62, 0x66, 0x6e, 0x72, 0x74]);
const isHex = (c: number): boolean =>
  (c >= 0x30 && c <= 0x39) || (c >= 0x41 && c <= 0x46) || (c >= 0x61 && c <= 0x66);
const isSpace = (c: number): boolean => c === 0x20 || c === 0x0a || c === 0x0d || c === 0x09;
/** Of a number or a literal. */
const isWordPart = (c: number): boolean =>
  (c >= 0x30 && c <= 0x39) ||
  (c >= 0x61 && c <= 0x7a) ||
  c === 0x45 ||
  c === 0x2b ||
  c === 0x2d ||
  c === 0x2e;
