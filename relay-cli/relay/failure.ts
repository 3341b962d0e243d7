import { cutText } from "../../src/protocol/completion.ts";
import { type ErrorKind, RELAY_ERRORS, type RelayErrorCode } from "../../src/protocol/errors.ts";
import { errorResponse } from "../../src/protocol/relay-api.ts";

/** Why a call did not bring an answer of ours, and what to do about it (design section 8). */
export interface Failure {
  kind: ErrorKind;
  /** `network`: no whole answer came. `foreign`: one came that is not the relay API's. `unknown`: an error newer than this relay. */
  code: RelayErrorCode | "network" | "foreign" | "unknown";
  /** For the owner: what happened and what to do. */
  text: string;
  /** The HTTP status, if an answer came. */
  status?: number;
  /** How long the server asks to be left alone. */
  retryAfterMs?: number;
  /** The server's clock, milliseconds since the epoch. */
  serverTime?: number;
}

export type Answer<T> = { ok: true; value: T } | { ok: false; failure: Failure };

/** A server may ask for at most this long a pause. */
const RETRY_AFTER_MAX_MS = 3_600_000;

/** What a non-2xx answer means. */
export function failureOf(status: number, headers: Headers, body: string): Failure {
  const pause = retryAfterMs(headers);
  const extra = { status, ...(pause === undefined ? {} : { retryAfterMs: pause }) };
  const ours = errorResponse.safeParse(parseJson(body));
  if (!ours.success) return { ...foreign(status), ...extra };
  const { error, error_description, server_time } = ours.data;
  const known = Object.hasOwn(RELAY_ERRORS, error) ? (error as RelayErrorCode) : undefined;
  return {
    kind: known ? RELAY_ERRORS[known].kind : kindOfStatus(status),
    code: known ?? "unknown",
    // The table's own words where there are some: the server's could hold anything.
    text: known
      ? RELAY_ERRORS[known].text
      : `The server refused (${status}): ${printable(error_description)}`,
    ...extra,
    ...(server_time === undefined ? {} : { serverTime: server_time }),
  };
}

/** An answer that the relay API did not give: a proxy's page, a captive portal, another service. */
export function foreign(status: number): Failure {
  // Too large is too large, whoever says so: the same body would be refused for ever.
  if (status === 413)
    return { kind: "permanent", code: "body_too_large", text: RELAY_ERRORS.body_too_large.text, status };
  return {
    kind: "retry",
    code: "foreign",
    text: `The answer (${status}) is not the relay API's: a proxy or a sign-in page may be in between. Check the address and the network.`,
    status,
  };
}

/** No whole answer came. */
export function networkFailure(error: unknown): Failure {
  return { kind: "retry", code: "network", text: `The server cannot be reached: ${rootCause(error)}.` };
}

function kindOfStatus(status: number): ErrorKind {
  if (status === 401) return "renew";
  return status >= 400 && status < 500 && ![408, 425, 429].includes(status) ? "permanent" : "retry";
}

/** `Retry-After` in either form (RFC 9110 section 10.2.3). A date counts from the answer's own `Date`. */
function retryAfterMs(headers: Headers): number | undefined {
  const value = headers.get("retry-after");
  if (value === null) return undefined;
  const ms = /^\d+$/.test(value)
    ? Number(value) * 1_000
    : Date.parse(value) - Date.parse(headers.get("date") ?? "");
  return Number.isFinite(ms) ? Math.min(Math.max(ms, 0), RETRY_AFTER_MAX_MS) : undefined;
}

/** The innermost reason: `fetch` itself only says that it failed. */
function rootCause(error: unknown): string {
  let inner = error;
  while (inner instanceof Error && inner.cause instanceof Error) inner = inner.cause;
  const { code, message } = inner as { code?: unknown; message?: unknown };
  const text = printable(typeof message === "string" && message ? message : String(code ?? inner));
  return typeof code === "string" && CERTIFICATE_CODES.has(code)
    ? `${text} (${code}). If your network has its own certificate authority, name its file with --ca-file or in NODE_EXTRA_CA_CERTS`
    : text;
}

const CERTIFICATE_CODES = new Set([
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_GET_ISSUER_CERT",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
]);

// Control characters steer a terminal; direction marks reorder what it shows.
const UNPRINTABLE =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it finds
  /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]+/g;

/** Text of others on one line of a terminal, at most 300 characters of it. */
export function printable(text: string): string {
  const plain = text.toWellFormed().replace(UNPRINTABLE, " ");
  return plain.length > 300 ? `${cutText(plain, 299)}…` : plain;
}

/** The value, or undefined if the text is not JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
