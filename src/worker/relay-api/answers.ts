import type { DeviceRefusal } from "../../durable/contract.ts";
import { RELAY_ERRORS, type RelayErrorCode } from "../../protocol/errors.ts";
import { relayError } from "./problem.ts";

/** When to come back after an answer that says so, in seconds; the relay adds its own jitter. */
const RETRY_AFTER_SECONDS = 5;

/** A call that ends in one of the relay API's errors. `text` says more than the error's own sentence. */
export class RelayError extends Error {
  readonly code: RelayErrorCode;

  constructor(code: RelayErrorCode, text: string = RELAY_ERRORS[code].text) {
    super(text);
    this.code = code;
  }
}

/** An error as an HTTP answer. `now` is the server's time in milliseconds, for a laptop whose clock is wrong. */
export function errorAnswer(error: RelayError, now: number): Response {
  const { status } = RELAY_ERRORS[error.code];
  return relayError(error.code, {
    detail: error.message,
    ...(status === 401
      ? { serverTime: now, headers: { "www-authenticate": 'Bearer error="invalid_token"' } }
      : {}),
    ...(status === 429 || status === 503 ? { headers: { "retry-after": String(RETRY_AFTER_SECONDS) } } : {}),
  });
}

/** What the object found, or the error it answered with. */
export function served<T extends { ok: true }>(answer: T | DeviceRefusal): T {
  if (!answer.ok) throw new RelayError(answer.error);
  return answer;
}
