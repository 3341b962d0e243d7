import type * as z from "zod";
import { RELAY_ERRORS } from "../../protocol/errors.ts";
import { projectOfCommand } from "../../protocol/ids.ts";
import { findJsonFault } from "../../protocol/json.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { AuthFailure, DeviceAuth } from "../auth.ts";
import { readBodyText } from "../body.ts";
import type { Env } from "../env.ts";
import { describeIssues } from "../issues.ts";
import type { Queues } from "../queues.ts";
import { RelayError } from "./answers.ts";

/** What the relay API needs from outside. */
export interface RelayDeps {
  authenticate(request: Request, env: Env): Promise<DeviceAuth | AuthFailure>;
  queues(env: Env): Queues;
  /** The server's time in milliseconds. */
  now(): number;
}

/** One authenticated call of a device. */
export interface RelayCall {
  device: DeviceAuth;
  db: D1Database;
  queues: Queues;
  now(): number;
}

/** The device that a request comes from. Nothing is read and no object touched before that is known. */
export async function authenticated(request: Request, env: Env, deps: RelayDeps): Promise<RelayCall> {
  const device = await deps.authenticate(request, env);
  if ("error" in device) throw new RelayError("token_invalid", device.description);
  return { device, db: env.DB, queues: deps.queues(env), now: deps.now };
}

/** A request's body as its schema has it, and as it was sent. */
export async function readBody<T>(
  request: Request,
  schema: z.ZodType<T>,
  maxBytes: number = LIMITS.relayBodyBytes,
): Promise<{ value: T; sent: unknown }> {
  const read = await readBodyText(request, maxBytes);
  if (!read.ok)
    throw read.error === "too_large" ? new RelayError("body_too_large") : invalid("The body is not UTF-8.");
  const sent = isForm(request) ? Object.fromEntries(new URLSearchParams(read.text)) : parseJson(read.text);
  const parsed = schema.safeParse(sent);
  if (!parsed.success) throw invalid(describeIssues(parsed.error, sent));
  return { value: parsed.data, sent };
}

/** RFC 7523 has its requests as forms. */
const isForm = (request: Request): boolean =>
  (request.headers.get("content-type") ?? "").startsWith("application/x-www-form-urlencoded");

function parseJson(text: string): unknown {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw invalid("The body is not JSON.");
  }
  const fault = findJsonFault(text);
  if (fault) throw invalid(`The JSON ${fault.text} (at character ${fault.at}).`);
  return value;
}

/** The error to a request that does not fit; `detail` names the field, the rule and the kind of the value. */
export const invalid = (detail: string): RelayError =>
  new RelayError("invalid_request", `${RELAY_ERRORS.invalid_request.text} ${detail}`);

/** The project if the device's token is for it. An object is only ever opened for a project that exists. */
export function ownProject(call: RelayCall, projectId: string): string {
  if (!call.device.projects.includes(projectId)) throw new RelayError("project_not_found");
  return projectId;
}

/** The project that a command's id routes to, if the device's token is for it. */
export function projectOf(call: RelayCall, commandId: string): string {
  const project = projectOfCommand(commandId);
  if (project === undefined || !call.device.projects.includes(project))
    throw new RelayError("command_not_found");
  return project;
}
