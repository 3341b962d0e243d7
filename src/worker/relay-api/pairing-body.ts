import type * as z from "zod";
import { LIMITS } from "../../protocol/limits.ts";
import { RelayError } from "./answers.ts";
import { relayError } from "./problem.ts";
import { readBody } from "./request.ts";

/** The body of a pairing call, which is small, if it fits the schema; otherwise the answer that says what does not fit. */
export async function readPairingBody<T>(request: Request, schema: z.ZodType<T>): Promise<T | Response> {
  try {
    return (await readBody(request, schema, LIMITS.formBodyBytes)).value;
  } catch (error) {
    if (!(error instanceof RelayError)) throw error;
    return relayError(error.code, { detail: error.message });
  }
}
