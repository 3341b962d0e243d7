import { RELAY_ERRORS, type RelayErrorCode } from "../../protocol/errors.ts";
import type { ErrorResponse } from "../../protocol/relay-api.ts";
import { RATE_PERIOD_SECONDS } from "../rate-limit.ts";

/** The answer for an error of the relay API's table. `detail` says more than the table's text; `serverTime` goes to a laptop with a wrong clock. */
export function relayError(
  code: RelayErrorCode,
  options: { detail?: string; serverTime?: number; headers?: Record<string, string> } = {},
): Response {
  const body: ErrorResponse = {
    error: code,
    error_description: options.detail ?? RELAY_ERRORS[code].text,
    ...(options.serverTime === undefined ? {} : { server_time: options.serverTime }),
  };
  const headers = { "cache-control": "no-store", ...options.headers };
  return Response.json(body, { status: RELAY_ERRORS[code].status, headers });
}

/** What too many calls get. */
export const rateLimited = (): Response =>
  relayError("rate_limited", { headers: { "retry-after": String(RATE_PERIOD_SECONDS) } });
