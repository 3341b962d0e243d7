import * as z from "zod";
import { completion } from "./completion.ts";
import type { RelayErrorCode } from "./errors.ts";
import { commandId, deviceId, graphSessionId, projectId, uuid } from "./ids.ts";
import { canonicalJson, isJsonObject, type Json, type JsonObject, sha256Hex } from "./json.ts";
import { LIMITS } from "./limits.ts";
import { COMMAND_STATES } from "./states.ts";

/** The path every relay call starts with (write-up, relay step 3). */
export const RELAY_PATH = "/external-assistants/graph-relays";

// Unknown fields are ignored on both sides, so that older and newer relays and servers get on.

/** Text that survives UTF-8: no lone surrogates; and no control characters, which terminals obey. */
const plainText = (max: number) =>
  z
    .string()
    .max(max)
    .refine((s) => s.isWellFormed(), "must be well-formed Unicode")
    // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it refuses
    .refine((s) => !/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/.test(s), "must not hold control characters");

/** A JSON object, passed on as it is: a schema that copies it would drop keys such as `__proto__`. */
export const jsonObject = z.custom<JsonObject>(isJsonObject, "must be a JSON object");

const sha256 = z.string().regex(/^[0-9a-f]{64}$/, "must be a SHA-256 in hex");
const version = z
  .string()
  .regex(/^\d+\.\d+\.\d+(?:[-+][0-9A-Za-z.-]+)?$/, "must be a version such as 1.2.3")
  .max(64);

/** What a project is told of a shared session; never its code. */
export const sessionMetadata = z.object({
  graph_session_id: graphSessionId,
  name: plainText(LIMITS.nameCharacters).min(1),
  description: plainText(LIMITS.descriptionCharacters),
  slug: z
    .string()
    .regex(/^[a-z0-9]+(?:-[a-z0-9]+)*$/, "must be words of a-z and 0-9 joined by -")
    .max(LIMITS.slugCharacters),
  version: plainText(LIMITS.versionCharacters),
  /** `unavailable`: the file is missing or broken, and a run would fail at once. */
  status: z.enum(["ready", "running", "unavailable"]),
  /** JSON Schema of the Graph's arguments. */
  arguments_schema: jsonObject
    .refine(
      (s) => JSON.stringify(s).length <= LIMITS.argumentsSchemaCharacters,
      `must be at most ${LIMITS.argumentsSchemaCharacters} characters of JSON`,
    )
    .optional(),
});
export type SessionMetadata = z.infer<typeof sessionMetadata>;

export const syncRequest = z.object({
  project_id: projectId,
  /** `sessionsDigest` of the full set this device shares with the project. */
  sessions_digest: sha256,
  /** The set itself; sent only after the answer `send`. */
  sessions: z.array(sessionMetadata).max(LIMITS.sessionsPerSync).optional(),
  /** From the answer `send` that asked for this set: a copy of the request that comes late is known by it. */
  set_version: z.number().int().optional(),
  client_version: version,
});
export type SyncRequest = z.infer<typeof syncRequest>;

/** A queued command as its device gets it. */
export const syncCommand = z.object({
  command_id: commandId,
  graph_session_id: graphSessionId,
  /** The session's slug when the run was asked for; the laptop refuses another. */
  slug: z.string(),
  arguments: jsonObject,
  /** Who asked, for the owner's eyes. */
  agent_name: z.string(),
  /** Server time, milliseconds since the epoch. */
  queued_at: z.number().int(),
  expires_at: z.number().int(),
});
export type SyncCommand = z.infer<typeof syncCommand>;

export const syncResponse = z.object({
  commands: z.array(syncCommand),
  next_poll_seconds: z.number().min(1).max(3600),
  /** `send`: the digest is not the one stored, sync again with `sessions`. */
  sessions: z.enum(["unchanged", "stored", "send"]),
  /** With `send`: goes along with the set. */
  set_version: z.number().int().optional(),
  minimum_version: version,
});
export type SyncResponse = z.infer<typeof syncResponse>;

export const startRequest = z.object({ attempt_id: uuid });
export const startResponse = z.discriminatedUnion("go", [
  z.object({ go: z.literal(true), lease_seconds: z.number() }),
  z.object({ go: z.literal(false), status: z.enum(COMMAND_STATES) }),
]);
export type StartResponse = z.infer<typeof startResponse>;

/** What a running Graph says of itself. `awaiting_approval` wakes whoever waits for the run. */
const progress = z.object({
  state: z.enum(["running", "awaiting_approval"]),
  message: plainText(LIMITS.progressCharacters).optional(),
  percent: z.number().min(0).max(100).optional(),
});
export type Progress = z.infer<typeof progress>;

export const controlRequest = z.object({ attempt_id: uuid, progress: progress.optional() });
export type ControlRequest = z.infer<typeof controlRequest>;
export const controlResponse = z.discriminatedUnion("alive", [
  z.object({ alive: z.literal(true), cancel_requested: z.boolean(), lease_seconds: z.number() }),
  /** The command is not this attempt's to run: stop the Graph. */
  z.object({ alive: z.literal(false), status: z.enum(COMMAND_STATES) }),
]);
export type ControlResponse = z.infer<typeof controlResponse>;

/** `attempt_id` is absent when consent was withdrawn before any attempt. */
export const completeRequest = completion.extend({ attempt_id: uuid.optional() });
export type CompleteRequest = z.infer<typeof completeRequest>;
export const completeResponse = z.object({
  /** `kept_out`: another outcome, or another attempt's, stands already; this one was only noted. */
  record: z.enum(["stored", "already_stored", "kept_out"]),
  status: z.enum(COMMAND_STATES),
});
export type CompleteResponse = z.infer<typeof completeResponse>;

/** A P-256 public key (RFC 7518 section 6.2.1). */
export const publicJwk = z.object({
  kty: z.literal("EC"),
  crv: z.literal("P-256"),
  x: z.string().regex(/^[A-Za-z0-9_-]{43}$/),
  y: z.string().regex(/^[A-Za-z0-9_-]{43}$/),
});
export type PublicJwk = z.infer<typeof publicJwk>;

/**
 * The login flow of a relay: the authorization server of the endpoint with this client, a loopback
 * redirect (`http://127.0.0.1:<port>/callback`) and PKCE. Its access token lives ten minutes and is good
 * for `POST /devices` with the key that the owner was shown; there is no refresh token. Name, system and key of the device go to
 * `/authorize` as `device_name`, `device_platform` and `device_thumbprint`, for the owner to see.
 */
export const LOGIN_CLIENT = {
  client_id: "graph-relay-cli",
  scope: "device:register",
  redirect_path: "/callback",
} as const;

/** `POST /devices`, with the login flow's access token or an enrolment code. */
export const registerRequest = z.object({
  name: plainText(LIMITS.nameCharacters).min(1),
  platform: plainText(40),
  client_version: version,
  public_jwk: publicJwk,
  enrolment_code: z.string().max(64).optional(),
});
export type RegisterRequest = z.infer<typeof registerRequest>;

const projectEntry = z.object({ project_id: projectId, name: z.string() });
/** `GET /projects`: the projects of the device's account. */
export const projectsResponse = z.object({ projects: z.array(projectEntry) });
export type ProjectsResponse = z.infer<typeof projectsResponse>;
export const registerResponse = projectsResponse.extend({ device_id: deviceId, account_name: z.string() });
export type RegisterResponse = z.infer<typeof registerResponse>;

/** `POST /token`: RFC 7523 section 2.1, as JSON or as a form. */
export const tokenRequest = z.object({
  grant_type: z.literal("urn:ietf:params:oauth:grant-type:jwt-bearer"),
  assertion: z.string().max(4096),
});
export const tokenResponse = z.object({
  access_token: z.string(),
  token_type: z.literal("Bearer"),
  expires_in: z.number().int(),
});

/** Every error of the relay API. `server_time` lets a laptop with a wrong clock sign a right assertion. */
export const errorResponse = z.object({
  error: z.string(),
  error_description: z.string(),
  server_time: z.number().int().optional(),
});
export type ErrorResponse = Omit<z.infer<typeof errorResponse>, "error"> & { error: RelayErrorCode };

/** The text whose SHA-256 is the digest of a set of sessions, whatever their order. */
export function sessionsDigestText(sessions: readonly SessionMetadata[]): string {
  const ordered = [...sessions].sort((a, b) => (a.graph_session_id < b.graph_session_id ? -1 : 1));
  return canonicalJson(ordered as unknown as Json);
}

/** The digest of sharing nothing. */
export const EMPTY_DIGEST = "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945";

/** The digest of a set of sessions, whatever their order. */
export function sessionsDigest(sessions: readonly SessionMetadata[]): Promise<string> {
  return sha256Hex(sessionsDigestText(sessions));
}
