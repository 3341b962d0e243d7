/** What `retry` accepts. */
export interface RetryOptions {
  /** Tries in all, the first included: 1 to 10, 3 unless given. More is taken as 10. */
  times?: number;
  /** Milliseconds before the second try, doubled for each further one up to a minute, with full jitter. 1000 unless given. */
  backoff?: number;
}

const MAX_TRIES = 10;
const MAX_WAIT = 60_000;

/** Errors that another try cannot mend: the owner's no, the ceiling, a stop, wrong input. */
const FINAL: ReadonlySet<unknown> = new Set([
  "approval_refused",
  "tool_denied",
  "token_ceiling",
  "path_not_granted",
  "invalid_input",
  "graph_cycle",
  "limit",
  "not_found",
  "stopped",
]);

/** Waiting and chance, injected. */
export interface RetryPorts {
  wait(ms: number, signal: AbortSignal): Promise<void>;
  /** 0 to 1. */
  random(): number;
}

/** Calls `fn` until it succeeds, a final error comes, or the tries are used up; then throws the last error. */
export async function retry<T>(
  fn: (at: { attempt: number }) => Promise<T> | T,
  options: RetryOptions,
  signal: AbortSignal,
  ports: RetryPorts,
): Promise<T> {
  if (typeof fn !== "function") throw new TypeError("retry needs a function.");
  const { times = 3, backoff = 1000 } = options;
  if (!Number.isInteger(times) || times < 1)
    throw new RangeError("retry: times must be a whole number from 1.");
  if (!(backoff >= 0)) throw new RangeError("retry: backoff must be a number of milliseconds from 0.");
  const tries = Math.min(times, MAX_TRIES);
  for (let attempt = 1; ; attempt++) {
    signal.throwIfAborted();
    try {
      return await fn({ attempt });
    } catch (error) {
      if (attempt >= tries || signal.aborted || isFinal(error)) throw error;
      await ports.wait(Math.min(backoff * 2 ** (attempt - 1), MAX_WAIT) * ports.random(), signal);
    }
  }
}

const isFinal = (error: unknown): boolean =>
  typeof error === "object" && error !== null && FINAL.has((error as { code?: unknown }).code);
