import type { Json } from "../contract.ts";
import { EngineError } from "../errors.ts";
import { checkBySchema } from "./schema.ts";

/**
 * The arguments as the Graph gets them: checked by its schema, and as the schema made them if it is a Standard
 * Schema. Throws an EngineError that names each fault.
 */
export async function checkArguments(schema: unknown, args: Json): Promise<unknown> {
  const checked = await checkBySchema(schema, args, "arguments");
  if (checked.ok) return checked.value;
  throw new EngineError(
    "invalid_arguments",
    `The arguments do not fit the Graph: ${checked.faults.join("; ")}`,
  );
}
