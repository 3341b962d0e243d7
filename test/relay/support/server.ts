import type { Transport } from "../../../relay-cli/relay/ports.ts";
import type { Completion } from "../../../src/protocol/completion.ts";
import { RELAY_ERRORS, type RelayErrorCode } from "../../../src/protocol/errors.ts";
import type { SessionMetadata } from "../../../src/protocol/relay-api.ts";
import {
  completeRequest,
  controlRequest,
  RELAY_PATH,
  startRequest,
  syncRequest,
  tokenRequest,
} from "../../../src/protocol/relay-api.ts";
import type { CommandState } from "../../../src/protocol/states.ts";

export const SERVER = "https://relay.example";
export const PROJECT = "prj_00000000aaaa";
export const OTHER_PROJECT = "prj_00000000bbbb";

export type Call = "token" | "sync" | "start" | "control" | "complete" | "projects" | "wake";
export interface SeenCall {
  call: Call;
  commandId: string | undefined;
  body: unknown;
  /** Characters of the body as it was sent. */
  length: number;
}

export interface FakeCommand {
  command_id: string;
  project_id: string;
  graph_session_id: string;
  slug: string;
  arguments: Record<string, unknown>;
  status: CommandState;
  attempt_id?: string;
  cancel_requested: boolean;
  completion?: Completion;
}

/** What becomes of a call: served, or one of the ways it can go wrong. */
export type Fault =
  | "cut"
  | "lost answer"
  | "hang"
  | "html"
  | "redirect"
  | { status: number; body?: string; headers?: Record<string, string> }
  | { error: RelayErrorCode; server_time?: number; headers?: Record<string, string> };

/** The server's side of the relay API, as far as a relay can see it, with requests and answers in the protocol's own schemas. */
export class FakeServer {
  readonly commands = new Map<string, FakeCommand>();
  readonly sets = new Map<string, { digest: string; sessions: SessionMetadata[] }>();
  readonly seen: SeenCall[] = [];
  readonly assertions: string[] = [];
  minimumVersion = "0.1.0";
  pollSeconds = 20;
  token = 0;
  /** Commands of this list are handed out as they are, however malformed. */
  extraCommands: unknown[] = [];
  fault: (call: SeenCall) => Fault | undefined = () => undefined;
  #serial = 0;

  /** Queues a run of a session. */
  queue(
    session: { graph_session_id: string; slug: string },
    args: Record<string, unknown> = {},
    project = PROJECT,
  ): FakeCommand {
    const number = project.slice("prj_".length);
    const serial = (++this.#serial).toString(16).padStart(12, "0");
    const command: FakeCommand = {
      command_id: `${number.slice(0, 8)}-${number.slice(8)}-8000-8000-${serial}`,
      project_id: project,
      graph_session_id: session.graph_session_id,
      slug: session.slug,
      arguments: args,
      status: "queued",
      cancel_requested: false,
    };
    this.commands.set(command.command_id, command);
    return command;
  }

  calls(call: Call): SeenCall[] {
    return this.seen.filter((one) => one.call === call);
  }

  readonly transport: Transport = async (url, init) => {
    const [path = ""] = url.slice(`${SERVER}${RELAY_PATH}`.length).split("?");
    const [, commandId, verb] = /^\/commands\/([^/]+)\/(\w+)$/.exec(path) ?? [];
    const call = (verb ?? path.slice(1)) as Call;
    const body: unknown = init.body === undefined ? undefined : JSON.parse(init.body);
    const seen = { call, commandId, body, length: init.body?.length ?? 0 };
    this.seen.push(seen);
    const fault = this.fault(seen);
    if (fault === "cut") throw new TypeError("fetch failed", { cause: new Error("connect ECONNREFUSED") });
    if (fault === "hang")
      return new Promise((_, reject) =>
        init.signal.addEventListener("abort", () => reject(init.signal.reason)),
      );
    if (fault === "html") return new Response("<html>Sign in to the hotel's network</html>", { status: 200 });
    if (fault === "redirect")
      return new Response(null, { status: 302, headers: { location: "https://elsewhere.example" } });
    if (typeof fault === "object")
      return "error" in fault ? errorAnswer(fault) : new Response(fault.body ?? "", fault);
    const answer = this.#serve(call, commandId, body, init.headers.authorization);
    if (fault === "lost answer") throw new TypeError("fetch failed", { cause: new Error("read ECONNRESET") });
    return answer;
  };

  #serve(
    call: Call,
    commandId: string | undefined,
    body: unknown,
    authorization: string | undefined,
  ): Response {
    if (call === "token") {
      this.assertions.push(tokenRequest.parse(body).assertion);
      return Response.json({ access_token: `token-${++this.token}`, token_type: "Bearer", expires_in: 900 });
    }
    if (authorization !== `Bearer token-${this.token}`) return errorAnswer({ error: "token_invalid" });
    if (call === "sync") return this.#sync(body);
    // It has no sockets.
    if (call === "wake") return errorAnswer({ error: "invalid_request" });
    const command = this.commands.get(commandId ?? "");
    if (!command) return errorAnswer({ error: "command_not_found" });
    if (call === "start") return this.#start(command, startRequest.parse(body).attempt_id);
    if (call === "control") return this.#control(command, controlRequest.parse(body).attempt_id);
    if (call === "complete") return this.#complete(command, body);
    return errorAnswer({ error: "internal" });
  }

  #sync(body: unknown): Response {
    const request = syncRequest.parse(body);
    const known = this.sets.get(request.project_id);
    let sessions: "unchanged" | "stored" | "send" = "unchanged";
    if (known?.digest !== request.sessions_digest) {
      sessions = request.sessions ? "stored" : "send";
      if (request.sessions)
        this.sets.set(request.project_id, { digest: request.sessions_digest, sessions: request.sessions });
    }
    const queued = [...this.commands.values()].filter(
      (one) => one.status === "queued" && one.project_id === request.project_id,
    );
    return Response.json({
      commands: [
        ...this.extraCommands,
        ...queued.slice(0, 20).map((one) => ({
          command_id: one.command_id,
          graph_session_id: one.graph_session_id,
          slug: one.slug,
          arguments: one.arguments,
          agent_name: "Test agent",
          queued_at: 0,
          expires_at: 0,
        })),
      ],
      next_poll_seconds: this.pollSeconds,
      sessions,
      minimum_version: this.minimumVersion,
    });
  }

  #start(command: FakeCommand, attemptId: string): Response {
    const mine = command.status === "running" && command.attempt_id === attemptId;
    if (command.status !== "queued" && !mine) return Response.json({ go: false, status: command.status });
    command.status = "running";
    command.attempt_id = attemptId;
    return Response.json({ go: true, lease_seconds: 90 });
  }

  #control(command: FakeCommand, attemptId: string): Response {
    if (command.attempt_id !== attemptId || !["running", "lost"].includes(command.status))
      return Response.json({ alive: false, status: command.status });
    command.status = "running";
    return Response.json({ alive: true, cancel_requested: command.cancel_requested, lease_seconds: 90 });
  }

  #complete(command: FakeCommand, body: unknown): Response {
    const { attempt_id, ...completion } = completeRequest.parse(body);
    const open =
      command.status === "queued"
        ? completion.status === "cancelled"
        : ["running", "lost"].includes(command.status) && command.attempt_id === attempt_id;
    if (!open) {
      const same = JSON.stringify(command.completion) === JSON.stringify(completion);
      return Response.json({ record: same ? "already_stored" : "kept_out", status: command.status });
    }
    command.status = completion.status;
    command.completion = completion;
    return Response.json({ record: "stored", status: command.status });
  }
}

function errorAnswer(fault: {
  error: RelayErrorCode;
  server_time?: number;
  headers?: Record<string, string>;
}): Response {
  const { error, server_time, headers } = fault;
  const row = RELAY_ERRORS[error];
  return Response.json(
    { error, error_description: row.text, ...(server_time === undefined ? {} : { server_time }) },
    { status: row.status, ...(headers ? { headers } : {}) },
  );
}
