import { NotJsonError, toJsonText } from "./json-text.ts";

/** The part of the Standard Schema interface (standardschema.dev) that the host calls. */
interface StandardSchema {
  "~standard": {
    validate(value: unknown): unknown;
    jsonSchema?: { input(options: { target: string }): unknown };
  };
}

/** Whether a value is a Standard Schema: zod, valibot, arktype and others. */
export const isStandardSchema = (value: unknown): value is StandardSchema =>
  (typeof value === "object" || typeof value === "function") &&
  value !== null &&
  typeof (value as Partial<StandardSchema>)["~standard"]?.validate === "function";

/** A Graph's `meta` and function, or an error that says what is wrong with the file. */
export function readModule(module: Record<string, unknown>): {
  meta: Record<string, unknown>;
  run: (api: unknown) => unknown;
} {
  const { meta, default: run } = module;
  if (typeof run !== "function")
    throw new TypeError(
      "The Graph has no default function. Write: export default async function ({ args, log }) { … }",
    );
  if (meta !== undefined && (typeof meta !== "object" || meta === null))
    throw new TypeError('The Graph\'s meta is no object. Write: export const meta = { name: "…" }');
  return { meta: (meta ?? {}) as Record<string, unknown>, run: run as (api: unknown) => unknown };
}

/** `meta` as JSON text: name, description, version, and the arguments as JSON Schema if they can be told so. */
export function describeMeta(meta: Record<string, unknown>): string {
  const { name, description, version, arguments: args } = meta;
  return toJsonText({ name, description, version, arguments: schemaAsJson(args) }, "meta");
}

/** A schema as JSON Schema; undefined for a Standard Schema that cannot be told so, which only validates. */
export function schemaAsJson(schema: unknown): unknown {
  if (isStandardSchema(schema)) return schema["~standard"].jsonSchema?.input({ target: "draft-2020-12" });
  if (schema === undefined || (typeof schema === "object" && schema !== null && !Array.isArray(schema)))
    return schema;
  throw new NotJsonError("A schema must be a JSON Schema object or a Standard Schema, such as zod's.");
}
