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
  return toJsonText({ name, description, version, arguments: argumentsSchema(args) }, "meta");
}

function argumentsSchema(args: unknown): unknown {
  if (!isStandardSchema(args)) {
    if (args === undefined || (typeof args === "object" && args !== null && !Array.isArray(args)))
      return args;
    throw new NotJsonError("meta.arguments must be a JSON Schema object or a Standard Schema.");
  }
  // Libraries without it still validate at the start of a run; the caller just is not told the schema.
  return args["~standard"].jsonSchema?.input({ target: "draft-2020-12" });
}
