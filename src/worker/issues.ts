import type * as z from "zod";
import { cutText } from "../protocol/completion.ts";

const MAX_ISSUES = 5;
const MAX_CHARACTERS = 200;

/**
 * What a schema found wrong, for whoever sent it: the field, the rule and the kind of the value, never its
 * content. At most five faults, each of bounded length.
 */
export function describeIssues(error: z.ZodError, input: unknown): string {
  const texts = error.issues.slice(0, MAX_ISSUES).map((issue) => {
    const field = issue.path.length === 0 ? "" : `${issue.path.map(String).join(".")}: `;
    const kind = kindOf(valueAt(input, issue.path));
    return `${cutText(`${field}${issue.message}`, MAX_CHARACTERS)} (got ${kind})`;
  });
  const more = error.issues.length - MAX_ISSUES;
  return `${texts.join("; ")}${more > 0 ? `; and ${more} more` : ""}.`;
}

/** What a JSON value is, without telling it: `a string of 12 characters`, counted as the schemas count them. */
function kindOf(value: unknown): string {
  if (value === undefined) return "nothing";
  if (value === null) return "null";
  if (typeof value === "string") return `a string of ${[...value].length} characters`;
  if (Array.isArray(value)) return `an array of ${value.length}`;
  return typeof value === "object" ? "an object" : `a ${typeof value}`;
}

function valueAt(input: unknown, path: readonly PropertyKey[]): unknown {
  let value = input;
  for (const key of path) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return undefined;
    value = (value as Record<PropertyKey, unknown>)[key];
  }
  return value;
}
