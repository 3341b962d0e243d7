import * as z from "zod";
import type { JsonObject } from "./json.ts";
import { LIMITS } from "./limits.ts";
import { jsonObject } from "./relay-api.ts";
import { CANCEL_ANSWERS, COMMAND_STATES } from "./states.ts";

// Ids in inputs are plain strings: a malformed one is answered like an unknown one, so that the
// answer tells a stranger nothing.

const id = (what: string) => z.string().describe(what);

export const listInput = z.strictObject({
  project_id: id("A connected project. Left out: every connected project.").optional(),
  limit: z
    .number()
    .int()
    .min(1)
    .max(LIMITS.listLimit)
    .default(LIMITS.listLimit)
    .describe("Sessions to list at most."),
});
export type ListInput = z.infer<typeof listInput>;

export const runInput = z.strictObject({
  graph_session_id: id("From list_graph_sessions."),
  arguments: jsonObject
    .optional()
    .describe(
      `What the Graph gets as its arguments: a JSON object of at most ${LIMITS.argumentsCharacters} characters.`,
    ),
  idempotency_key: z
    .string()
    .min(LIMITS.idempotencyKeyMin)
    .max(LIMITS.idempotencyKeyMax)
    .describe("Made up by you, one for each run you want. Send the same key again after a lost answer."),
});
export type RunInput = z.infer<typeof runInput>;

export const getInput = z.strictObject({
  command_id: id("From run_graph_session."),
  wait_seconds: z
    .number()
    .int()
    .min(0)
    .max(LIMITS.waitSecondsMax)
    .default(LIMITS.waitSecondsDefault)
    .describe("How long to wait for the run to end or to need its owner. 0 answers at once."),
});
export type GetInput = z.infer<typeof getInput>;

export const cancelInput = z.strictObject({ command_id: id("From run_graph_session.") });
export type CancelInput = z.infer<typeof cancelInput>;

const time = z.string().describe("ISO 8601, UTC");

/** Whether the laptop is there: seen within `LIMITS.onlineSeconds`. */
const desktop = z.object({ online: z.boolean(), last_seen_at: time.nullable() });

export const listOutput = z.object({
  project_id: z.string().optional().describe("The project that was asked for."),
  projects: z
    .array(z.object({ project_id: z.string(), name: z.string() }))
    .optional()
    .describe("Every connected project, where none was asked for."),
  sessions: z.array(
    z.object({
      graph_session_id: z.string(),
      project_id: z.string(),
      name: z.string(),
      description: z.string(),
      slug: z.string(),
      version: z.string(),
      status: z.enum(["ready", "running", "unavailable"]),
      arguments_schema: z.record(z.string(), z.unknown()).optional().describe("JSON Schema of `arguments`."),
      desktop,
    }),
  ),
  more: z.boolean().optional().describe("There are more sessions than `limit`."),
  next_step: z.string().optional(),
});
export type ListOutput = z.infer<typeof listOutput>;

/** A run as its agent sees it: the ticket and every status are this one shape. */
export const runOutput = z.object({
  command_id: z.string(),
  project_id: z.string(),
  graph_session_id: z.string(),
  status: z.enum(COMMAND_STATES),
  cancel_requested: z.boolean(),
  queue_position: z.number().int().optional().describe("1 is next on that desktop. Only while queued."),
  desktop,
  check_after_seconds: z
    .number()
    .int()
    .optional()
    .describe("When to call get_graph_run again. Absent once the run ended."),
  queued_at: time,
  started_at: time.optional(),
  finished_at: time.optional(),
  expires_at: time.optional().describe("When a run that is still queued is given up."),
  kept_until: time.optional().describe("When the record, the result and the idempotency key are deleted."),
  progress: z
    .object({
      state: z.enum(["running", "awaiting_approval"]),
      message: z.string().optional(),
      percent: z.number().optional(),
    })
    .optional(),
  execution_id: z
    .string()
    .optional()
    .describe("Names the full record in the owner's history on the desktop."),
  result: z.unknown().optional(),
  result_truncated: z
    .boolean()
    .optional()
    .describe("The result was too large to send; it is whole on the desktop."),
  error: z.string().optional(),
  total_tokens: z.number().optional(),
  reported_cost: z.number().optional(),
  late: z.boolean().optional().describe("The result came after the run had been given up as lost."),
  finished_before_stop: z
    .boolean()
    .optional()
    .describe("It ended by itself before the stop reached it: its side effects happened."),
  next_step: z.string().describe("What to do now."),
});
export type RunOutput = z.infer<typeof runOutput>;

export const cancelOutput = runOutput.extend({ cancel: z.enum(CANCEL_ANSWERS) });
export type CancelOutput = z.infer<typeof cancelOutput>;

export type Scope = "osfoundry:read" | "osfoundry:run";
/** The scopes an agent may be given; `run` includes `read`. */
export const SCOPES: readonly Scope[] = ["osfoundry:read", "osfoundry:run"];

export interface ToolRow {
  readonly name: "list_graph_sessions" | "run_graph_session" | "get_graph_run" | "cancel_graph_run";
  readonly title: string;
  readonly scope: Scope;
  readonly description: string;
  readonly input: z.ZodType;
  readonly output: z.ZodType;
  readonly annotations: {
    readonly readOnlyHint: boolean;
    readonly destructiveHint: boolean;
    readonly idempotentHint: boolean;
    readonly openWorldHint: boolean;
  };
}

const READ = {
  readOnlyHint: true,
  destructiveHint: false,
  idempotentHint: true,
  openWorldHint: false,
} as const;

/** The four tools, in the order they are listed (design section 6; names and scopes from the public listing). */
export const TOOLS: readonly ToolRow[] = [
  {
    name: "list_graph_sessions",
    title: "List Graph sessions",
    scope: "osfoundry:read",
    description:
      "Lists the Graph sessions (saved programs on the owner's desktop) that the owner has shared with your connected projects, " +
      "and whether the desktop is online. An empty list means that nothing is shared yet: only the owner can change that.",
    input: listInput,
    output: listOutput,
    annotations: READ,
  },
  {
    name: "run_graph_session",
    title: "Run a Graph session",
    scope: "osfoundry:run",
    description:
      "Queues one run of a Graph session on the owner's online desktop, in a connected project, and returns a ticket at once. " +
      "Then call get_graph_run with the ticket's command_id for progress and the result; do not call this again for the same run. " +
      "The desktop can go offline; the run then waits, for 24 hours unless the owner set another time. The owner's local tool approvals still apply. " +
      "Make up one idempotency_key for each run you want and send the same key again if the answer was lost: it never runs twice. " +
      "A key names its run for as long as the run's record is kept: 30 days after its end unless the owner set another time.",
    input: runInput,
    output: runOutput,
    annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: true },
  },
  {
    name: "get_graph_run",
    title: "Get a Graph run",
    scope: "osfoundry:read",
    description:
      "Tells the state, progress and result of a run that this connected agent started. Waits up to wait_seconds until the run ends or needs its owner, " +
      "so one call is usually enough for a short Graph; if it is still going, call again when the answer says so.",
    input: getInput,
    output: runOutput,
    annotations: READ,
  },
  {
    name: "cancel_graph_run",
    title: "Cancel a Graph run",
    scope: "osfoundry:run",
    description:
      "Stops a run that this connected agent started. A queued run is cancelled at once and never starts; a running one is told to stop " +
      "and ends as cancelled within seconds; a finished one stays as it is. What it has already done is not undone.",
    input: cancelInput,
    output: cancelOutput,
    annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: false },
  },
];

/** A tool's schema as JSON Schema 2020-12, as `tools/list` shows it. */
export function jsonSchemaOf(type: z.ZodType, io: "input" | "output"): JsonObject {
  const { $schema: _, ...schema } = z.toJSONSchema(type, {
    io,
    unrepresentable: "any",
    override: ({ zodSchema, jsonSchema }) => {
      if (zodSchema._zod.def.type === "custom") jsonSchema.type = "object";
    },
  });
  return schema as JsonObject;
}
