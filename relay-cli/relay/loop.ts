import { LIMITS } from "../../src/protocol/limits.ts";
import { createRelayApi, type RelayApi } from "./api.ts";
import { createBackoff } from "./backoff.ts";
import { type CommandTaker, createCommandTaker, endsPass } from "./commands.ts";
import { type Failure, printable } from "./failure.ts";
import { createOutboxSender } from "./outbox.ts";
import type { RelayOptions, RelayPorts } from "./ports.ts";
import { reportOrphans } from "./recovery.ts";
import { createBell } from "./signal.ts";
import { syncAll } from "./sync.ts";
import { createTokenSource } from "./token.ts";

const POLL_MS = LIMITS.pollSeconds * 1_000;
/** How often the relay looks whether another process changed the shares, and whether the machine slept. */
const TICK_MS = 1_000;
/** The wall clock running this far ahead of the monotonic one means that the machine slept. */
const SLEPT_MS = 5_000;
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
  const api: RelayApi = createRelayApi(
    ports,
    createTokenSource(ports, options.serverUrl),
    options.serverUrl,
    leaving.signal,
  );
  const bell = createBell(clock);
  const outbox = createOutboxSender(ports, api);
  const backoff = createBackoff(ports.random);
  let state: "running" | "draining" | "cancelling" = "running";
  let refused: Failure | undefined;
  let trouble: string | undefined;
  let recovered = false;
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

  /** Trouble is told once, and so is its end. */
  function tell(failure: Failure | undefined): void {
    if (failure?.text === trouble) return;
    if (failure) log.warn(`${failure.text} Trying again.`);
    else log.info("All is well again.");
    trouble = failure?.text;
  }

  /** What a pass came to: how long until the next one. */
  function paused(failure: Failure | undefined, nextPollMs = POLL_MS): number {
    if (failure?.kind === "stop") {
      onRefused(failure);
      return 0;
    }
    tell(failure);
    if (!failure) {
      backoff.succeeded(clock.monotonic());
      return untilDue(nextPollMs);
    }
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
    const sent = await outbox.send();
    if (sent && endsPass(sent)) return paused(sent);
    const resumed = await taker.resume();
    if (resumed && endsPass(resumed)) return paused(resumed);
    const synced = await syncAll(ports, api, taker, options);
    if (leaving.signal.aborted) return 0;
    return paused(synced.failure ?? resumed ?? sent, synced.nextPollMs);
  }

  /** A pass while every place is taken, or none is to be: only the outbox has something to do. */
  async function outboxPass(): Promise<number> {
    const failure = await outbox.send();
    return failure ? paused(failure) : untilDue(POLL_MS);
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

  /** Waits for the next pass: its time, a bell, a sharing change, or the machine waking up. */
  async function rest(ms: number, known: number): Promise<void> {
    const until = clock.monotonic() + ms;
    for (;;) {
      const left = until - clock.monotonic();
      if (left <= 0) return;
      const before = { wall: clock.wall(), monotonic: clock.monotonic() };
      if (await bell.wait(Math.min(TICK_MS, left))) return;
      const monotonic = clock.monotonic() - before.monotonic;
      if (clock.wall() - before.wall - monotonic > SLEPT_MS || monotonic > TICK_MS + SLEPT_MS) return;
      if (sharingVersion(known) !== known) return;
    }
  }

  function sharingVersion(otherwise: number): number {
    try {
      return store.projects.sharingVersion();
    } catch {
      return otherwise;
    }
  }

  const mayGoOn = () => state === "running" && !refused;

  async function work(): Promise<void> {
    while (mayGoOn()) {
      const known = sharingVersion(0);
      const pause = await guarded(pass);
      if (mayGoOn()) await rest(pause, known);
      // The timer is skipped while every place is taken (write-up, relay step 1).
      while (mayGoOn() && !taker.hasRoom() && sharingVersion(known) === known)
        await rest(await guarded(outboxPass), known);
    }
  }

  async function finishRuns(): Promise<void> {
    while (taker.running.size > 0) {
      const pause = refused ? POLL_MS : await guarded(outboxPass);
      if (taker.running.size > 0) await bell.wait(pause);
    }
  }

  /** Sends what is left, for a while; what stays is sent by the next relay. */
  async function farewell(): Promise<number> {
    const over = new AbortController();
    const until = clock
      .sleep(state === "cancelling" ? FAREWELL_MS / 2 : FAREWELL_MS, over.signal)
      .then(() => {
        over.abort();
        bell.ring();
      });
    while (!refused && !over.signal.aborted && countUnsent() > 0) {
      const pause = await Promise.race([guarded(outboxPass), until.then(() => 0)]);
      if (countUnsent() > 0 && !over.signal.aborted) await bell.wait(pause);
      if (state === "cancelling") break;
    }
    over.abort();
    await until;
    return countUnsent();
  }

  function countUnsent(): number {
    try {
      return store.outbox.pending().length;
    } catch {
      return 0;
    }
  }

  return {
    async run() {
      await work();
      await finishRuns();
      const unsent = await farewell();
      return { unsent, ...(refused ? { refused } : {}) };
    },
    drain() {
      if (state === "running") state = "draining";
      leaving.abort();
      bell.ring();
    },
    cancel() {
      state = "cancelling";
      leaving.abort();
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
