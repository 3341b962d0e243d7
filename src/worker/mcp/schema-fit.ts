import { type OutputUnit, type SchemaDraft, Validator } from "@cfworker/json-schema";
import { cutText } from "../../protocol/completion.ts";
import type { Json, JsonObject } from "../../protocol/json.ts";
import { guardSchema } from "./schema-guard.ts";

const MAX_MISFITS = 10;
const MAX_CHARACTERS = 200;

/** Keywords whose error only repeats that something inside does not fit. */
const WRAPPERS: readonly string[] = [
  "$ref",
  "$recursiveRef",
  "properties",
  "patternProperties",
  "additionalProperties",
  "unevaluatedProperties",
  "items",
  "prefixItems",
  "additionalItems",
  "unevaluatedItems",
  "allOf",
  "dependentSchemas",
];

const DRAFTS: readonly [string, SchemaDraft][] = [
  ["draft-04", "4"],
  ["draft-06", "7"],
  ["draft-07", "7"],
  ["2019-09", "2019-09"],
];

/**
 * Where a run's arguments do not fit the Graph's JSON Schema: at most ten texts, each naming the place and
 * the rule, never the value. Both are a stranger's, so the work is bounded: a schema that is not valid, or
 * too costly for these arguments, finds nothing, and the Graph itself has the last word on what it takes.
 */
export function findMisfits(schemaJson: string, args: JsonObject): string[] {
  const schema = JSON.parse(schemaJson) as JsonObject;
  const instance = withoutPrototypes(args);
  const quick = misfitsOf(schema, instance, true);
  if (quick === undefined || quick.length === 0) return [];
  // The first pass stops at the first fault of an object; naming them all may cost more than it may.
  const all = misfitsOf(schema, instance, false) ?? quick;
  const texts = [...new Set(all.filter((unit) => !WRAPPERS.includes(unit.keyword)).map(describe))];
  const more = texts.length - MAX_MISFITS;
  return more > 0 ? [...texts.slice(0, MAX_MISFITS), `and ${more} more`] : texts;
}

function misfitsOf(schema: JsonObject, instance: Json, firstOnly: boolean): OutputUnit[] | undefined {
  const guarded = guardSchema(schema, instance);
  if (guarded === undefined) return undefined;
  try {
    return new Validator(guarded, draftOf(schema), firstOnly).validate(instance).errors;
  } catch {
    // The schema is no valid one (an unknown `$ref`, a broken pattern), or its budget is spent.
    return undefined;
  }
}

function draftOf(schema: JsonObject): SchemaDraft {
  const named = String(schema.$schema ?? "");
  return DRAFTS.find(([name]) => named.includes(name))?.[1] ?? "2020-12";
}

function describe({ instanceLocation, keyword, error }: OutputUnit): string {
  const place = `arguments${instanceLocation.slice(1)}`;
  // Errors about numbers begin with the number itself.
  const text = keyword === "false" ? "is not allowed." : error.replace(/^-?[\d.e+-]+ is /, "The number is ");
  return cutText(`${place}: ${text}`, MAX_CHARACTERS).replace(/\.$/, "");
}

/**
 * The same value out of objects without a prototype, in which a key such as `constructor` or `__proto__`
 * is there only if it was sent.
 */
function withoutPrototypes(value: Json): Json {
  if (Array.isArray(value)) return value.map(withoutPrototypes);
  if (value === null || typeof value !== "object") return value;
  const copy = Object.create(null) as JsonObject;
  for (const key of Object.keys(value)) copy[key] = withoutPrototypes(value[key] as Json);
  return copy;
}
