import type * as z from "zod";
import { LIMITS } from "../../protocol/limits.ts";
import { readBodyText } from "../body.ts";
import { relayError } from "./problem.ts";

/** A body that fits the schema, or the answer that says which field does not and why, without its content. */
export async function readJson<T>(request: Request, schema: z.ZodType<T>): Promise<T | Response> {
  const read = await readBodyText(request, LIMITS.formBodyBytes);
  if (!read.ok && read.error === "too_large") return relayError("body_too_large");
  const text = read.ok ? read.text : "";
  let body: unknown;
  try {
    body = isForm(request) ? Object.fromEntries(new URLSearchParams(text)) : JSON.parse(text);
  } catch {
    return relayError("invalid_request", { detail: "The body is not JSON" });
  }
  const parsed = schema.safeParse(body);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  return relayError("invalid_request", {
    detail: `${issue?.path.join(".") || "The body"}: ${issue?.message}`,
  });
}

const isForm = (request: Request): boolean =>
  (request.headers.get("content-type") ?? "").startsWith("application/x-www-form-urlencoded");
