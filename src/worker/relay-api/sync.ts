import type { SyncAnswer } from "../../durable/contract.ts";
import type { JsonObject } from "../../protocol/json.ts";
import { LIMITS, MINIMUM_RELAY_VERSION } from "../../protocol/limits.ts";
import {
  type SessionMetadata,
  type SyncCommand,
  type SyncRequest,
  type SyncResponse,
  sessionsDigest,
  syncRequest,
} from "../../protocol/relay-api.ts";
import { storeSessions } from "../db/session-sync.ts";
import { RelayError, served } from "./answers.ts";
import { invalid, ownProject, type RelayCall, readBody } from "./request.ts";
import { isSupported } from "./version.ts";

/**
 * `POST /sync`: a device's pass over one project. One call to the object; D1 is touched only when the
 * device's sessions changed. Then the object forgets what D1 holds before it is written and learns it after,
 * so that a pass that broke off is made again, and passes that overtake each other leave the later set.
 */
export async function sync(call: RelayCall, request: Request): Promise<SyncResponse> {
  const { value, sent } = await readBody(request, syncRequest);
  if (!isSupported(value.client_version, MINIMUM_RELAY_VERSION)) throw new RelayError("version_unsupported");
  const project = ownProject(call, value.project_id);
  const { device_id, issued_at } = call.device;
  const { sessions_digest } = value;
  const answer = served(
    await call.queues.call(project, (queue) =>
      queue.sync({ device_id, sessions_digest, token_issued_at: issued_at }),
    ),
  );
  return {
    commands: answer.commands.map(wireCommand),
    next_poll_seconds: LIMITS.pollSeconds,
    ...(await settleSessions(call, value, sent, answer)),
    minimum_version: MINIMUM_RELAY_VERSION,
  };
}

async function settleSessions(
  call: RelayCall,
  value: SyncRequest,
  sent: unknown,
  answer: SyncAnswer,
): Promise<Pick<SyncResponse, "sessions" | "set_version">> {
  if (answer.digest_matches) return { sessions: "unchanged" };
  const { device_id } = call.device;
  const { project_id, sessions_digest, sessions } = value;
  const begin = async () =>
    served(await call.queues.call(project_id, (queue) => queue.beginSet({ device_id }))).set_version;
  if (sessions === undefined) return { sessions: "send", set_version: await begin() };
  await checkSet(sessions, sessions_digest, sent);
  // A copy of an earlier request, come late: what it tells is no longer so.
  if (value.set_version !== undefined && value.set_version !== answer.set_version)
    throw new RelayError("unavailable");
  const set_version = value.set_version ?? (await begin());
  const stored = await storeSessions(call.db, {
    project_id,
    device_id,
    sessions,
    set_version,
    now: call.now(),
  });
  if (!stored.stored && stored.foreign.length === 0) throw new RelayError("unavailable");
  if (!stored.stored)
    throw new RelayError(
      "session_conflict",
      `Belongs to another paired device: ${stored.foreign.join(", ")}. Nothing of this set was stored.`,
    );
  const { won } = served(
    await call.queues.call(project_id, (queue) =>
      queue.storeDigest({ device_id, sessions_digest, set_version }),
    ),
  );
  // A later set came in between: the device's next pass tells which one stands.
  if (!won) throw new RelayError("unavailable");
  return { sessions: "stored" };
}

async function checkSet(sessions: readonly SessionMetadata[], digest: string, sent: unknown): Promise<void> {
  const ids = new Set(sessions.map((session) => session.graph_session_id));
  if (ids.size < sessions.length) throw invalid("sessions: a graph_session_id is there twice.");
  // As it was sent: a newer relay's set may have fields that this server does not know.
  const raw = (sent as { sessions: SessionMetadata[] }).sessions;
  if ((await sessionsDigest(raw)) !== digest) throw new RelayError("digest_mismatch");
}

function wireCommand({ arguments_json, ...command }: SyncAnswer["commands"][number]): SyncCommand {
  return { ...command, arguments: JSON.parse(arguments_json) as JsonObject };
}
