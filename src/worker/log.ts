import { DrizzleQueryError } from "drizzle-orm/errors";

/** Logs a failure. Of a statement that failed it logs the text and the reason, never the values: those are people's data. */
export function logFailure(what: string, error: unknown): void {
  console.error(what, withoutValues(error));
}

function withoutValues(error: unknown): unknown {
  if (!(error instanceof DrizzleQueryError)) return error;
  return new Error(`Failed query: ${error.query}`, { cause: error.cause });
}
