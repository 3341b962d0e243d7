import { Validator } from "@cfworker/json-schema";
import { describeThrown } from "../error-text.ts";
import { isStandardSchema } from "./meta.ts";

const MAX_FAULTS = 20;
/** Keywords whose fault is that something within has one. */
const AROUND: ReadonlySet<string> = new Set([
  "properties",
  "additionalProperties",
  "unevaluatedProperties",
  "patternProperties",
  "items",
  "prefixItems",
  "allOf",
  "$ref",
]);

/** Whether a value fits, as the schema made it (defaults, transforms), or each fault with its place. */
export type Checked = { ok: true; value: unknown } | { ok: false; faults: string[] };

/** Checks a value by a Standard Schema or a JSON Schema. No schema fits everything. `what` names the whole value. */
export async function checkBySchema(schema: unknown, value: unknown, what: string): Promise<Checked> {
  if (schema === undefined) return { ok: true, value };
  return isStandardSchema(schema)
    ? byStandardSchema(schema, value, what)
    : byJsonSchema(schema as object, value, what);
}

async function byStandardSchema(
  schema: { "~standard": { validate(value: unknown): unknown } },
  value: unknown,
  what: string,
): Promise<Checked> {
  const outcome = (await schema["~standard"].validate(value)) as {
    value?: unknown;
    issues?: readonly { message: string; path?: readonly (PropertyKey | { key: PropertyKey })[] }[];
  };
  if (outcome.issues === undefined) return { ok: true, value: outcome.value };
  const faults = outcome.issues.slice(0, MAX_FAULTS).map((issue) => {
    const path = (issue.path ?? []).map((p) => String(typeof p === "object" ? p.key : p)).join(".");
    return `${path === "" ? what : path}: ${issue.message}`;
  });
  return { ok: false, faults };
}

function byJsonSchema(schema: object, value: unknown, what: string): Checked {
  let outcome: ReturnType<Validator["validate"]>;
  try {
    outcome = new Validator(schema, "2020-12", false).validate(value);
  } catch (error) {
    return { ok: false, faults: [`the schema cannot be used: ${describeThrown(error).message}`] };
  }
  if (outcome.valid) return { ok: true, value };
  // Of a fault within, the ones around it say nothing more.
  const inner = outcome.errors.filter((e) => !AROUND.has(e.keyword));
  const faults = (inner.length > 0 ? inner : outcome.errors).slice(0, MAX_FAULTS).map((e) => {
    const path = e.instanceLocation.replace(/^#\/?/, "").replaceAll("/", ".");
    const text = e.keyword === "false" ? "is not allowed" : e.error.replace(/\.$/, "");
    return `${path === "" ? what : path}: ${text}`;
  });
  return { ok: false, faults };
}
