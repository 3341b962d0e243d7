/**
 * What the receiver of an error does with it (design section 8).
 * - `retry`: the same request may succeed later.
 * - `permanent`: this item never will; a relay puts it among its dead letters.
 * - `stop`: nothing from this relay will; it says so and exits.
 * - `renew`: the token is too old; get a new one and send the same request once more.
 */
export type ErrorKind = "retry" | "permanent" | "stop" | "renew";

interface ErrorRow {
  readonly status: number;
  readonly kind: ErrorKind;
  /** What happened and what to do, for the person who reads it. */
  readonly text: string;
}

/** Every error the relay API answers with: its HTTP status, its kind and its text. */
export const RELAY_ERRORS = {
  invalid_request: { status: 400, kind: "permanent", text: "The request does not fit the relay API." },
  token_invalid: { status: 401, kind: "renew", text: "The access token is missing, expired or not ours." },
  assertion_invalid: {
    status: 401,
    kind: "stop",
    text: "The device's signature was not accepted. Pair it again with `graph-relay login`.",
  },
  assertion_used: {
    status: 401,
    kind: "renew",
    text: "This assertion was used before: the request came twice. Sign a new one.",
  },
  clock_skew: {
    status: 401,
    kind: "renew",
    text: "The assertion's time does not fit the server's clock. Sign it with `server_time`.",
  },
  device_removed: {
    status: 403,
    kind: "stop",
    text: "This device was removed from its account. Pair it again with `graph-relay login`.",
  },
  project_not_found: { status: 404, kind: "permanent", text: "Project not found or access removed" },
  command_not_found: { status: 404, kind: "permanent", text: "Command not found or access removed" },
  session_conflict: {
    status: 409,
    kind: "permanent",
    text: "A session id in this set belongs to another device.",
  },
  digest_mismatch: {
    status: 409,
    kind: "permanent",
    text: "`sessions_digest` is not the digest of `sessions`.",
  },
  body_too_large: { status: 413, kind: "permanent", text: "The request body is over the limit." },
  version_unsupported: {
    status: 426,
    kind: "stop",
    text: "This relay is too old for the server. Install the newest graph-relay.",
  },
  enrolment_invalid: {
    status: 400,
    kind: "stop",
    text: "The enrolment code is wrong, used or expired. Make a new one on the account page.",
  },
  rate_limited: { status: 429, kind: "retry", text: "Too many requests. Try again later." },
  internal: { status: 500, kind: "retry", text: "The server failed. Try again later." },
  unavailable: { status: 503, kind: "retry", text: "The server is busy. Try again later." },
} as const satisfies Record<string, ErrorRow>;
export type RelayErrorCode = keyof typeof RELAY_ERRORS;

/** What a tool says when its call cannot be done; the model reads the text, programs the code. */
export const TOOL_ERRORS = {
  invalid_arguments: "The tool's input is not valid.",
  run_not_found: "Graph run not found or access removed",
  session_not_found: "Graph session not found or access removed",
  project_not_found: "Project not found or access removed",
  key_conflict: "This idempotency key was already used for another request.",
  queue_full: "The queue is full.",
  unavailable: "The service is busy. Try the same call again in a few seconds.",
  internal: "The service failed. Try the same call again; an idempotency key makes that safe.",
} as const;
export type ToolErrorCode = keyof typeof TOOL_ERRORS;

/** Why a command was cancelled before it started, as the relay reports it (write-up, relay step 4). */
export const NO_LONGER_SHARED = "Graph session is no longer shared with this project";
/** Why a run ended when its relay died under it (design section 9). */
export const RELAY_STOPPED = "The relay stopped while the Graph was running; it was not run again";

/** Why the server itself cancelled a queued command. */
export const CANCEL_REASONS = {
  agent_removed: "The agent that asked for this run lost its access to the project",
  device_removed: "The desktop this run was queued for was removed from its account",
} as const;
export type CancelReason = keyof typeof CANCEL_REASONS;
