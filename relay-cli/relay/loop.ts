import { LIMITS } from "../../src/protocol/limits.ts";
import { createRelayApi, type RelayApi } from "./api.ts";
import { createBackoff } from "./backoff.ts";
import { type CommandTaker, createCommandTaker, endsPass } from "./commands.ts";
import { type Failure, printable } from "./failure.ts";
import { createOutboxSender } from "./outbox.ts";
import type { RelayOptions, RelayPorts } from "./ports.ts";
import { reportOrphans } from "./recovery.ts";
import { createRest, TICK_MS } from "./rest.ts";
import { createBell } from "./signal.ts";
import { syncAll } from "./sync.ts";
import { createTokenSource } from "./token.ts";
import { createWakeSockets } from "./wake.ts";

const POLL_MS = LIMITS.pollSeconds * 1_000;
/** How long a relay that is to stop tries to send what it holds. */
const FAREWELL_MS = 20_000;
/** Ended attempts that the journal remembers, so that none is ever started twice. */
const JOURNAL_KEEP = 10_000;

export interface Relay {
  /** Runs until it is drained, cancelled or refused by the server. Never rejects. */
  run(): Promise<RelayEnd>;
  /** Takes up nothing more, lets what runs finish, sends, and ends. */
  drain(): void;
  /** As `drain`, and tells what runs to stop. */
  cancel(): void;
  /** There may be something to do: makes a pass at once. */
  wake(): void;
}

/** Why a relay ended, and how many outcomes it could not send. */
export interface RelayEnd {
  refused?: Failure;
  unsent: number;
}

export function createRelay(ports: RelayPorts, options: RelayOptions): Relay {
  const { clock, store, log } = ports;
  /** Aborted when nothing more is to be taken up: a sync that hangs must not hold up the end. */
  const leaving = new AbortController();
  /** Aborted at the very end. */
  const gone = new AbortController();
  const tokens = createTokenSource(ports, options.serverUrl);
  const api: RelayApi = createRelayApi(ports, tokens, options.serverUrl, {
    leaving: leaving.signal,
    gone: gone.signal,
  });
  const sockets = createWakeSockets(ports, tokens, options.serverUrl, {
    wake: onWake,
    refused: onRefused,
  });
  const bell = createBell(clock);
  const rest = createRest(ports, bell);
  const outbox = createOutboxSender(ports, api);
  const backoff = createBackoff(ports.random);
  let state: "running" | "draining" | "cancelling" = "running";
  let refused: Failure | undefined;
  let trouble: string | undefined;
  let recovered = false;
  /** The last round of syncs went through: every project knows what is shared with it. */
  let isTold = false;
  /** Until when the server asked to be left alone. */
  let quietUntil = 0;
  const taker: CommandTaker = createCommandTaker(ports, api, {
    concurrency: options.concurrency,
    mayStart: () => state === "running" && !refused,
    runEnded: () => bell.ring(),
    refused: onRefused,
  });

  function onRefused(failure: Failure): void {
    if (refused) return;
    refused = failure;
    log.warn(failure.text);
    // A device that was removed has no business to go on; an old relay may finish what it began.
    if (failure.code !== "version_unsupported")
      for (const run of taker.running.values()) run.stop("not_ours");
    bell.ring();
  }

  /** The server has something for a project: a pass, and a look at each of its runs. However many ask, one follows. */
  function onWake(projectId: string): void {
    for (const run of taker.running.values()) if (run.attempt.project_id === projectId) run.nudge();
    if (clock.monotonic() >= quietUntil) bell.ring();
  }

  /** Whether the server will have no more of this relay; then nothing goes on. */
  function isRefused(failure: Failure | undefined): boolean {
    if (failure?.kind === "stop") onRefused(failure);
    return refused !== undefined;
  }

  /** Trouble is told once, and so is its end. */
  function tell(failure: Failure | undefined): void {
    if (failure?.text === trouble) return;
    if (failure) log.warn(`${failure.text} Trying again.`);
    else {
      log.info("All is well again.");
      sockets.reachable();
    }
    trouble = failure?.text;
  }

  /** What a round of syncs came to: how long until the next pass. */
  function paused(failure: Failure | undefined, nextPollMs = POLL_MS): number {
    if (!failure) {
      backoff.succeeded(clock.monotonic());
      return untilDue(nextPollMs);
    }
    quietUntil = clock.monotonic() + (failure.retryAfterMs ?? 0);
    const pause = backoff.failed(clock.monotonic(), failure.retryAfterMs);
    return endsPass(failure) ? pause : untilDue(pause);
  }

  /** The pause, cut short if an outcome is to be sent again earlier. */
  function untilDue(pause: number): number {
    const due = outbox.nextDue();
    return due === undefined ? pause : Math.min(pause, Math.max(due - clock.monotonic(), TICK_MS));
  }

  /** Before anything else, what an earlier relay left behind. */
  function recover(): void {
    if (!recovered) reportOrphans(ports, store.attempts.inState("started"));
    recovered = true;
    store.attempts.prune(JOURNAL_KEEP);
  }

  /** One pass (design section 9): outbox, attempts without an answer, then each project. */
  async function pass(): Promise<number> {
    recover();
    sockets.keep(store.projects.list().filter((project) => project.enabled));
    // Trouble with one outcome or one start must not keep the relay from the rest.
    const sent = await outbox.send();
    if (isRefused(sent)) return 0;
    const resumed = await taker.resume();
    if (isRefused(resumed)) return 0;
    isTold = false;
    const synced = await syncAll(ports, api, taker, options);
    isTold = synced.failure === undefined;
    if (leaving.signal.aborted || isRefused(synced.failure)) return 0;
    // Commands that were refused for want of consent are reported at once.
    const refusals = synced.failure ? undefined : await outbox.send();
    if (isRefused(refusals)) return 0;
    tell(synced.failure ?? sent ?? resumed ?? refusals);
    return paused(synced.failure, synced.nextPollMs);
  }

  /** A pass while every place is taken, or none is to be: only the outbox has something to do. */
  async function outboxPass(): Promise<number> {
    const failure = await outbox.send();
    if (isRefused(failure)) return 0;
    if (failure) tell(failure);
    return untilDue(POLL_MS);
  }

  /** The state file may refuse to be written at any step. The relay tells its owner and tries again. */
  async function guarded(body: () => Promise<number>): Promise<number> {
    try {
      return await body();
    } catch (error) {
      const failure = diskFailure(error);
      tell(failure);
      return backoff.failed(clock.monotonic());
    }
  }

  const mayGoOn = () => state === "running" && !refused;

  async function work(): Promise<void> {
    while (mayGoOn()) {
      const known = rest.sharingVersion(0);
      const pause = await guarded(pass);
      if (mayGoOn()) await rest.until(pause, known);
      // The timer is skipped while every place is taken (write-up, relay step 1), but not what is still to be told.
      while (mayGoOn() && !taker.hasRoom() && isTold && rest.sharingVersion(known) === known)
        await rest.until(await guarded(outboxPass), known);
    }
  }

  async function finishRuns(): Promise<void> {
    while (taker.running.size > 0) {
      const ended = Promise.all([...taker.running.values()].map((run) => run.ended));
      const pause = refused ? POLL_MS : await Promise.race([guarded(outboxPass), ended.then(() => 0)]);
      if (taker.running.size > 0) await bell.wait(pause);
    }
  }

  /** Sends what is left, for a while; what stays is sent by the next relay. */
  async function farewell(): Promise<number> {
    const over = new AbortController();
    const patience = state === "cancelling" ? FAREWELL_MS / 2 : FAREWELL_MS;
    const until = clock.sleep(patience, over.signal).then(() => {
      over.abort();
      bell.ring();
    });
    outbox.hurry();
    while (!refused && !over.signal.aborted && countUnsent() > 0) {
      const pause = await Promise.race([guarded(outboxPass), until.then(() => 0)]);
      if (state === "cancelling") break;
      if (countUnsent() > 0 && !over.signal.aborted) await bell.wait(pause);
    }
    over.abort();
    gone.abort();
    await outbox.idle();
    return countUnsent();
  }

  function countUnsent(): number {
    try {
      return store.outbox.pendingIds().length;
    } catch {
      return 0;
    }
  }

  return {
    async run() {
      await work();
      sockets.close();
      await finishRuns();
      const unsent = await farewell();
      return { unsent, ...(refused ? { refused } : {}) };
    },
    drain() {
      if (state === "running") state = "draining";
      leaving.abort();
      sockets.close();
      bell.ring();
    },
    cancel() {
      state = "cancelling";
      leaving.abort();
      sockets.close();
      for (const run of taker.running.values()) {
        run.stop("owner");
        run.abandon();
      }
      bell.ring();
    },
    wake() {
      for (const run of taker.running.values()) run.nudge();
      bell.ring();
    },
  };
}

/** The state file does not take what must be on the disk first: nothing goes on without it. */
function diskFailure(error: unknown): Failure {
  const text = error instanceof Error ? error.message : String(error);
  return { kind: "retry", code: "unknown", text: printable(text) };
}
