import * as z from "zod";

const SECOND = 1;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/**
 * What an owner may set for a project, with its range and default (design section 3). Durations are in
 * seconds of the server's clock.
 */
export const projectSettings = z.object({
  /** How long a command may stay queued before it expires. */
  queue_expiry_seconds: z
    .number()
    .int()
    .min(5 * MINUTE)
    .max(7 * DAY)
    .default(24 * HOUR),
  /** How long a running command is believed alive without a sign from its relay. */
  lease_seconds: z
    .number()
    .int()
    .min(30)
    .max(15 * MINUTE)
    .default(90),
  /** How long a run's record, its result and its idempotency key are kept after it ended. */
  retention_seconds: z
    .number()
    .int()
    .min(HOUR)
    .max(90 * DAY)
    .default(30 * DAY),
  /** Queued commands at once in the project, over all its agents. */
  max_queued_per_project: z.number().int().min(1).max(1000).default(100),
  /** Queued commands at once of one agent. */
  max_queued_per_agent: z.number().int().min(1).max(1000).default(20),
});
export type ProjectSettings = z.infer<typeof projectSettings>;

/** The settings of a project whose owner changed none. */
export const DEFAULT_SETTINGS: ProjectSettings = projectSettings.parse({});

/**
 * Fixed limits of the protocol. Characters of a JSON text, and of an error where it is cut, are UTF-16 units, as
 * `String.length` counts them; of a single string that a schema checks they are code points, as JSON Schema counts.
 */
export const LIMITS = {
  /** The JSON text of a run's arguments, in characters (design section 8). */
  argumentsCharacters: 100_000,
  /** The JSON text of a completion, in characters; all or nothing (write-up, "How big can the result be"). */
  completionCharacters: 100_000,
  /** An error's text, in characters, never cut inside a surrogate pair (write-up). */
  errorCharacters: 2_000,
  /** How deep arguments and results may nest: past it parsers differ in what they survive. */
  jsonDepth: 200,
  idempotencyKeyMin: 8,
  idempotencyKeyMax: 128,
  /** Sessions a device shares in one project (write-up, relay step 3). */
  sessionsPerSync: 100,
  /** Commands one sync answers with, and their arguments' size in characters, oldest first. */
  commandsPerSync: 20,
  commandsPerSyncCharacters: 1_000_000,
  /** Sessions one `list_graph_sessions` answers with. */
  listLimit: 50,
  /** How long `get_graph_run` may wait on the server, in seconds, and how long it waits unasked. */
  waitSecondsMax: 50,
  waitSecondsDefault: 40,
  /** `get_graph_run` calls one agent may have waiting in one project; a further one answers at once. */
  waitersPerAgent: 20,
  waitersPerProject: 200,
  /** The time between two polls of a relay, in seconds (write-up, relay step 1). */
  pollSeconds: 20,
  /** The time between two looks at whether a running command was cancelled, in seconds (write-up, step 5). */
  controlSeconds: 3,
  /** A device counts as online this long after its last sign: three polls. */
  onlineSeconds: 60,
  /**
   * Request bodies, in bytes. Each holds arguments or a completion of the largest size, every character escaped.
   * A set of sessions may be larger; its relay leaves out those that do not fit.
   */
  mcpBodyBytes: 1_048_576,
  relayBodyBytes: 1_048_576,
  formBodyBytes: 16_384,
  /** Names, descriptions, slugs, versions, in characters. */
  nameCharacters: 120,
  descriptionCharacters: 1_000,
  slugCharacters: 80,
  versionCharacters: 40,
  /** A session's `arguments` schema as JSON text, in characters. */
  argumentsSchemaCharacters: 8_000,
  /** A progress message, in characters. */
  progressCharacters: 500,
} as const;

/** The oldest relay this server still talks to; an older one stops with exit code 5. */
export const MINIMUM_RELAY_VERSION = "0.1.0";
