import { isJsonObject, type Json, type JsonObject } from "../../protocol/json.ts";

/** What one validation may cost, in visits of a subschema: about a microsecond each. */
const BUDGET = 100_000;
/** Characters of a string that cost as much to count as one visit. */
const CHARACTERS_PER_VISIT = 1_000;
/** Steps of a regular expression that cost as much as one visit, and that one match may take. */
const STEPS_PER_VISIT = 1_000;
const MAX_STEPS = 1_000_000;
/** `uniqueItems` compares each item with each other: only in arguments with no more values than this. */
const MAX_UNIQUE_VALUES = 1_000;

/** Formats that the validator checks in linear time. */
const CHEAP_FORMATS: readonly string[] = [
  "date",
  "time",
  "date-time",
  "duration",
  "email",
  "hostname",
  "ipv4",
  "ipv6",
  "uri",
  "uri-reference",
  "uuid",
  "json-pointer",
];

class BudgetSpent extends Error {}

interface Sizes {
  /** Characters of the longest string or key. */
  longest: number;
  values: number;
}

/**
 * A copy of a schema that counts what validating with it costs, and throws when that is too much. What
 * could run away inside one visit is left out: patterns that may take too many steps on strings as long as
 * these arguments', formats that are not cheap, `uniqueItems` over many values. `undefined`: a part that cannot
 * be left out without changing what fits.
 */
export function guardSchema(schema: JsonObject, instance: Json): JsonObject | undefined {
  const sizes = sizesOf(instance);
  let left = BUDGET;
  const spend = (visits: number) => {
    left -= visits;
    if (left < 0) throw new BudgetSpent();
  };
  const stringCost = Math.ceil(sizes.longest / CHARACTERS_PER_VISIT);
  let usable = true;

  const copy = (node: Json): Json => {
    if (Array.isArray(node)) return node.map(copy);
    if (!isJsonObject(node)) return node;
    let cost = 1;
    const out = {} as JsonObject;
    for (const [key, value] of Object.entries(node)) {
      if (key === "pattern" && typeof value === "string") {
        const steps = matchSteps(value, sizes.longest);
        if (steps > MAX_STEPS) continue;
        cost += Math.ceil(steps / STEPS_PER_VISIT);
      }
      if (key === "patternProperties" && isJsonObject(value)) {
        const steps = Object.keys(value).map((pattern) => matchSteps(pattern, sizes.longest));
        if (Math.max(0, ...steps) > MAX_STEPS) usable = false;
        cost += Math.ceil((steps.reduce((a, b) => a + b, 0) * sizes.values) / STEPS_PER_VISIT);
      }
      if (key === "format" && !CHEAP_FORMATS.includes(String(value))) continue;
      if (key === "uniqueItems" && sizes.values > MAX_UNIQUE_VALUES) continue;
      if (key === "minLength" || key === "maxLength" || key === "format") cost += stringCost;
      if (key === "enum" && Array.isArray(value)) cost += Math.ceil(value.length / 100);
      Object.defineProperty(out, key, {
        value: copy(value),
        enumerable: true,
        configurable: true,
        writable: true,
      });
    }
    // Every visit of a subschema reads its `type`.
    const type = out.type;
    Object.defineProperty(out, "type", {
      enumerable: type !== undefined,
      get: () => {
        spend(cost);
        return type;
      },
    });
    return out;
  };

  const guarded = copy(schema) as JsonObject;
  return usable ? guarded : undefined;
}

function sizesOf(value: Json): Sizes {
  const sizes: Sizes = { longest: 0, values: 0 };
  const look = (node: Json) => {
    sizes.values++;
    if (typeof node === "string") sizes.longest = Math.max(sizes.longest, node.length);
    else if (Array.isArray(node)) node.forEach(look);
    else if (node !== null && typeof node === "object")
      for (const [key, inner] of Object.entries(node)) {
        sizes.longest = Math.max(sizes.longest, key.length);
        look(inner);
      }
  };
  look(value);
  return sizes;
}

/**
 * An upper bound of the steps that a backtracking matcher takes on a string of `length` characters: the
 * product of the ways that each repetition can end, times `length` if the match may start anywhere.
 * Infinite where a repeated group holds a repetition or a choice, or a part refers back.
 */
export function matchSteps(pattern: string, length: number): number {
  let steps = pattern.startsWith("^") && !pattern.includes("|") ? 1 : Math.max(1, length);
  /** For each open group, whether it holds a repetition or a choice. */
  const groups: boolean[] = [];
  const markGroup = () => {
    if (groups.length > 0) groups[groups.length - 1] = true;
  };
  let previous: "group with ways" | undefined;
  for (let i = 0; i < pattern.length; i++) {
    const c = pattern[i];
    let current: typeof previous;
    if (c === "\\") {
      if (/[1-9k]/.test(pattern[i + 1] ?? "")) return Number.POSITIVE_INFINITY;
      i++;
    } else if (c === "[") {
      i = endOfClass(pattern, i);
    } else if (c === "(") {
      groups.push(false);
      if (pattern[i + 1] === "?") i++;
    } else if (c === ")") {
      if (groups.pop()) {
        current = "group with ways";
        markGroup();
      }
    } else if (c === "|") {
      markGroup();
    } else if (c === "*" || c === "+" || c === "?" || c === "{") {
      const { ways, end } = repetition(pattern, i, length);
      if (previous && c !== "?") return Number.POSITIVE_INFINITY;
      if (ways > 1) markGroup();
      steps *= ways;
      i = pattern[end] === "?" ? end : end - 1;
    }
    previous = current;
  }
  return steps;
}

/** In how many ways the repetition at `start` can end, and where its text ends. */
function repetition(pattern: string, start: number, length: number): { ways: number; end: number } {
  const many = Math.max(1, length);
  if (pattern[start] === "?") return { ways: 2, end: start + 1 };
  const braces = /^\{(\d+)(?:(,)(\d*))?\}/.exec(pattern.slice(start));
  if (!braces) return { ways: many, end: start + 1 };
  const [text, from, comma, to] = braces;
  const end = start + text.length;
  if (comma === undefined) return { ways: 1, end };
  return { ways: to ? Math.min(many, Number(to) - Number(from) + 1) : many, end };
}

function endOfClass(pattern: string, start: number): number {
  for (let i = start + 1; i < pattern.length; i++) {
    if (pattern[i] === "\\") i++;
    else if (pattern[i] === "]") return i;
  }
  return pattern.length;
}
