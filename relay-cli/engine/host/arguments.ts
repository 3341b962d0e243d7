import type { Json } from "../contract.ts";
import { EngineError } from "../errors.ts";
import { isStandardSchema } from "./meta.ts";

/**
 * The arguments as the Graph gets them: checked by its schema, and as the schema made them (defaults, transforms)
 * if it is a Standard Schema. Throws an EngineError that names each fault.
 */
export async function checkArguments(schema: unknown, args: Json): Promise<unknown> {
  if (!isStandardSchema(schema)) return args;
  const outcome = (await schema["~standard"].validate(args)) as {
    value?: unknown;
    issues?: readonly { message: string; path?: readonly (PropertyKey | { key: PropertyKey })[] }[];
  };
  if (outcome.issues === undefined) return outcome.value;
  const faults = outcome.issues.slice(0, 20).map((issue) => {
    const path = (issue.path ?? []).map((p) => String(typeof p === "object" ? p.key : p)).join(".");
    return `${path === "" ? "arguments" : path}: ${issue.message}`;
  });
  throw new EngineError("invalid_arguments", `The arguments do not fit the Graph: ${faults.join("; ")}`);
}
