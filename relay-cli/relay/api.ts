import * as z from "zod";
import {
  type CompleteRequest,
  type CompleteResponse,
  type ControlRequest,
  type ControlResponse,
  completeResponse,
  controlResponse,
  type ProjectsResponse,
  projectsResponse,
  RELAY_PATH,
  type StartResponse,
  type SyncRequest,
  startResponse,
  syncResponse,
} from "../../src/protocol/relay-api.ts";
import type { Answer } from "./failure.ts";
import { exchange, type HttpRequest } from "./http.ts";
import type { RelayClock, Transport } from "./ports.ts";
import type { TokenSource } from "./token.ts";

/** How long a call may take, in milliseconds. A sync carries up to a megabyte, a completion 300 kB. */
const DEADLINES = { sync: 30_000, start: 15_000, control: 15_000, complete: 30_000, projects: 15_000 };

/** Commands one by one: a single malformed one must not hide the others. */
const looseSyncResponse = syncResponse.extend({ commands: z.array(z.unknown()) });
type LooseSyncResponse = z.infer<typeof looseSyncResponse>;

/** The relay API as the relay calls it. Nothing throws. */
export interface RelayApi {
  sync(request: SyncRequest): Promise<Answer<LooseSyncResponse>>;
  start(commandId: string, attemptId: string): Promise<Answer<StartResponse>>;
  control(commandId: string, request: ControlRequest, signal: AbortSignal): Promise<Answer<ControlResponse>>;
  complete(commandId: string, request: CompleteRequest): Promise<Answer<CompleteResponse>>;
  projects(): Promise<Answer<ProjectsResponse>>;
  /** Takes this device off its account. */
  removeSelf(): Promise<Answer<unknown>>;
}

export function createRelayApi(
  ports: { clock: RelayClock; transport: Transport },
  tokens: TokenSource,
  serverUrl: string,
  /** `leaving` ends syncs and starts that hang; what is finished is sent all the same, until `gone`. */
  signals: { leaving: AbortSignal; gone: AbortSignal },
): RelayApi {
  /** Projects whose refusal a newer token did not mend. */
  const refusedProjects = new Set<string>();

  /** Sends with the token, and once more with a new one if this one is refused. */
  async function call<T>(path: string, request: Omit<HttpRequest<T>, "url" | "token">): Promise<Answer<T>> {
    const url = `${serverUrl}${RELAY_PATH}${path}`;
    const token = await tokens.get();
    if (!token.ok) return token;
    const first = await exchange(ports, { ...request, url, token: token.value });
    if (first.ok || first.failure.kind !== "renew") return first;
    const renewed = await tokens.renew(token.value);
    if (!renewed.ok) return renewed;
    const second = await exchange(ports, { ...request, url, token: renewed.value });
    if (second.ok || second.failure.kind !== "renew") return second;
    return { ok: false, failure: { ...second.failure, kind: "retry" } };
  }

  const post = <T>(
    path: string,
    body: unknown,
    answer: z.ZodType<T>,
    deadlineMs: number,
    signal?: AbortSignal,
  ) => call(path, { method: "POST", body, answer, deadlineMs, ...(signal ? { signal } : {}) });

  return {
    async sync(request) {
      const send = () => post("/sync", request, looseSyncResponse, DEADLINES.sync, signals.leaving);
      const first = await send();
      if (first.ok) {
        refusedProjects.delete(request.project_id);
        return first;
      }
      if (first.failure.code !== "project_not_found" || refusedProjects.has(request.project_id)) return first;
      // The token may be older than the project.
      refusedProjects.add(request.project_id);
      const token = await tokens.get();
      if (!token.ok) return token;
      const renewed = await tokens.renew(token.value);
      return renewed.ok ? send() : renewed;
    },
    start: (commandId, attemptId) =>
      post(
        `/commands/${commandId}/start`,
        { attempt_id: attemptId },
        startResponse,
        DEADLINES.start,
        signals.leaving,
      ),
    control: (commandId, request, signal) =>
      post(`/commands/${commandId}/control`, request, controlResponse, DEADLINES.control, signal),
    complete: (commandId, request) =>
      post(`/commands/${commandId}/complete`, request, completeResponse, DEADLINES.complete, signals.gone),
    removeSelf: () =>
      call("/devices/self", { method: "DELETE", answer: z.unknown(), deadlineMs: DEADLINES.projects }),
    projects: () =>
      call("/projects", { method: "GET", answer: projectsResponse, deadlineMs: DEADLINES.projects }),
  };
}
