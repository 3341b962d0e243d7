import { LIMITS } from "../../src/protocol/limits.ts";
import type { Progress } from "../../src/protocol/relay-api.ts";
import type { RelayApi } from "./api.ts";
import { createBackoff } from "./backoff.ts";
import type { Failure } from "./failure.ts";
import type { StopReason } from "./outcome.ts";
import type { RelayPorts } from "./ports.ts";
import { createBell } from "./signal.ts";

const CONTROL_MS = LIMITS.controlSeconds * 1_000;
/** A heartbeat that fails is tried again after at most this long: well within the shortest lease of 30 s. */
const RETRY_MAX_MS = 10_000;

/** The heartbeat of one run: renews its lease, carries its progress, brings the order to stop. */
export interface ControlLoop {
  /** Progress for the next heartbeat; a change of state brings that one forward. */
  report(progress: Progress): void;
  /** Looks at once: the server may have news. */
  nudge(): void;
  end(): void;
  /** Resolves once the loop has ended. Never rejects. */
  done: Promise<void>;
}

export interface ControlEvents {
  stop(reason: StopReason): void;
  /** The server will have nothing more to do with this relay. */
  refused(failure: Failure): void;
}

/** Runs until `end`. A network that is gone stops nothing: the Graph goes on, and so does this. */
export function startControlLoop(
  ports: RelayPorts,
  api: RelayApi,
  attempt: { command_id: string; attempt_id: string },
  events: ControlEvents,
): ControlLoop {
  const { clock } = ports;
  const ended = new AbortController();
  const bell = createBell(clock);
  const backoff = createBackoff(ports.random);
  let state: Progress["state"] = "running";
  let unsent: Progress | undefined;

  /** One heartbeat; the pause until the next one. */
  async function beat(): Promise<number> {
    const progress = unsent;
    const request = { attempt_id: attempt.attempt_id, ...(progress ? { progress } : {}) };
    const answer = await api.control(attempt.command_id, request, ended.signal);
    if (ended.signal.aborted) return 0;
    if (answer.ok) {
      backoff.succeeded(clock.monotonic());
      if (unsent === progress) unsent = undefined;
      if (!answer.value.alive) events.stop("not_ours");
      else if (answer.value.cancel_requested) events.stop("cancel_requested");
      return CONTROL_MS;
    }
    const { failure } = answer;
    if (failure.kind === "stop") events.refused(failure);
    else if (failure.code === "command_not_found" || failure.code === "project_not_found")
      events.stop("not_ours");
    // Progress that the server does not take must not cost the lease.
    else if (failure.kind === "permanent" && unsent === progress) unsent = undefined;
    const pause = backoff.failed(clock.monotonic(), failure.retryAfterMs);
    return Math.max(CONTROL_MS, failure.retryAfterMs ?? Math.min(pause, RETRY_MAX_MS));
  }

  async function loop(): Promise<void> {
    let pause = CONTROL_MS;
    while (!ended.signal.aborted) {
      await bell.wait(pause);
      if (!ended.signal.aborted) pause = await beat();
    }
  }

  return {
    report(progress) {
      unsent = progress;
      if (progress.state !== state) bell.ring();
      state = progress.state;
    },
    nudge: () => bell.ring(),
    end() {
      ended.abort();
      bell.ring();
    },
    done: loop(),
  };
}
