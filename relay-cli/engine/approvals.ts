import { EngineError } from "./errors.ts";
import type { EngineClock } from "./ports.ts";

/** What the owner said about a kind of tool use for one Graph. */
export type ApprovalSetting = "allow" | "ask" | "deny";

/** Something a Graph or its agent wants to do, put to the owner. */
export interface ApprovalRequest {
  execution_id: string;
  run_id: string;
  graph: string;
  tool: string;
  /** Exactly what will be done: the command line, the path and the new text, the URL and the body. */
  request: string;
  /** How long an answer is waited for; none by then is a refusal. */
  timeout_seconds: number;
}

/** `by` says who or what decided, for the history: "owner once", "owner for this run", "no answer in time". */
export interface ApprovalDecision {
  answer: "once" | "run" | "always" | "refused";
  by: string;
}

/** Puts a request to the owner and waits for the answer. It may never throw; `signal` ends the waiting. */
export interface ApprovalBroker {
  ask(request: ApprovalRequest, signal: AbortSignal): Promise<ApprovalDecision>;
}

/** A run's questions to its owner, one at a time, and what the answers allow for the rest of it. */
export interface ApprovalDesk {
  /** Resolves to who allowed it. Throws `approval_refused`. */
  ask(request: ApprovalRequest, signal: AbortSignal): Promise<string>;
}

/**
 * The desk of one run. `onWaiting` is told what is waited for, and nothing once there is no question open. An
 * answer that never comes is a refusal after the request's time, whatever the broker does.
 */
export function createApprovalDesk(
  broker: ApprovalBroker,
  clock: EngineClock,
  onWaiting: (what: string | undefined) => void,
): ApprovalDesk {
  const allowed = new Map<string, string>();
  let last: Promise<unknown> = Promise.resolve();
  let open = 0;

  const answer = async (request: ApprovalRequest, runSignal: AbortSignal): Promise<string> => {
    runSignal.throwIfAborted();
    const key = JSON.stringify([request.graph, request.tool]);
    const standing = allowed.get(key);
    if (standing !== undefined) return standing;
    onWaiting(`${request.tool}: ${request.request}`);
    const decision = await withinTime(broker, clock, request, runSignal);
    runSignal.throwIfAborted();
    if (decision.answer === "refused")
      throw new EngineError("approval_refused", `${request.tool} was not approved (${decision.by}).`);
    if (decision.answer !== "once") allowed.set(key, decision.by);
    return decision.by;
  };
  return {
    ask(request, signal) {
      open++;
      const asked = last.then(() => answer(request, signal));
      last = asked
        .catch(() => {})
        .finally(() => {
          if (--open === 0) onWaiting(undefined);
        });
      return asked;
    },
  };
}

async function withinTime(
  broker: ApprovalBroker,
  clock: EngineClock,
  request: ApprovalRequest,
  runSignal: AbortSignal,
): Promise<ApprovalDecision> {
  const limit = new AbortController();
  const { promise: late, resolve } = Promise.withResolvers<ApprovalDecision>();
  const cancel = clock.after(request.timeout_seconds * 1000, () => {
    resolve({ answer: "refused", by: `no answer in ${request.timeout_seconds} s` });
    limit.abort();
  });
  const onStop = (): void => resolve({ answer: "refused", by: "the run was stopped" });
  if (runSignal.aborted) onStop();
  else runSignal.addEventListener("abort", onStop, { once: true });
  try {
    return await Promise.race([broker.ask(request, AbortSignal.any([runSignal, limit.signal])), late]);
  } finally {
    cancel();
    runSignal.removeEventListener("abort", onStop);
  }
}
