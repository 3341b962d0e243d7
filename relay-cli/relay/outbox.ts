import { truncateCompletion } from "../../src/protocol/completion.ts";
import type { OutboxItem } from "../store/contract.ts";
import type { RelayApi } from "./api.ts";
import { type Backoff, createBackoff } from "./backoff.ts";
import type { Failure } from "./failure.ts";
import type { RelayPorts } from "./ports.ts";

/** After this many refusals that are not the relay API's own words, an item counts as refused for good. */
const FOREIGN_REFUSALS = 5;
/** So many failures in a row end a round: the trouble is the server's, or the network's, not an item's. */
const FAILURES_PER_ROUND = 5;
const CUTS_PER_ROUND = 2;
const REFUSALS = [400, 409, 410, 422];

/** Sends what is finished, until the server confirms it or refuses it for good. */
export interface OutboxSender {
  /** Tries each item whose time has come. Answers with the last failure. One round at a time: who comes in between gets its answer. */
  send(): Promise<Failure | undefined>;
  /** Makes every item due now, whatever its pauses: this relay has no later. */
  hurry(): void;
  /** Resolves when no round is under way. Never rejects. */
  idle(): Promise<void>;
  /** When the next item is due, by the monotonic clock; undefined if none waits. */
  nextDue(): number | undefined;
}

export function createOutboxSender(ports: RelayPorts, api: RelayApi): OutboxSender {
  const { clock, store, log } = ports;
  const waiting = new Map<string, { backoff: Backoff; due: number; foreignRefusals: number }>();

  /** The failure, unless it is this item's alone. */
  async function sendOne(item: OutboxItem): Promise<Failure | undefined> {
    const { command_id } = item;
    const answer = await api.complete(command_id, {
      ...item.completion,
      ...(item.attempt_id === null ? {} : { attempt_id: item.attempt_id }),
    });
    if (answer.ok) {
      store.outbox.delivered(command_id);
      waiting.delete(command_id);
      if (answer.value.record === "kept_out")
        log.warn(
          `Run ${command_id}: the server holds another outcome (${answer.value.status}); ours was only noted.`,
        );
      return undefined;
    }
    const { failure } = answer;
    if (failure.kind === "stop") return failure;
    const state = waiting.get(command_id) ?? {
      backoff: createBackoff(ports.random),
      due: 0,
      foreignRefusals: 0,
    };
    waiting.set(command_id, state);
    if (failure.code === "foreign" && REFUSALS.includes(failure.status ?? 0)) state.foreignRefusals++;
    if (failure.kind === "permanent" || state.foreignRefusals >= FOREIGN_REFUSALS) {
      waiting.delete(command_id);
      return refused(item, failure);
    }
    const now = clock.monotonic();
    state.due = now + state.backoff.failed(now, failure.retryAfterMs);
    store.outbox.noteFailure(command_id, failure.text);
    return failure;
  }

  /** A refused result goes once more without its bulk; what is refused then is shown to the owner. */
  async function refused(item: OutboxItem, failure: Failure): Promise<Failure | undefined> {
    const { command_id } = item;
    if (item.attempt_id === null && item.completion.status === "cancelled") {
      // Nothing ran and nobody waits for it: there is nothing to keep.
      store.outbox.delivered(command_id);
      log.warn(`Command ${command_id} was not started, and the server did not take that in: ${failure.text}`);
      return undefined;
    }
    const mayShrink = item.completion.result !== undefined && failure.code !== "command_not_found";
    if (mayShrink && !item.truncated) {
      const shorter = truncateCompletion(item.completion);
      if (store.outbox.replaceTruncated(command_id, shorter)) {
        log.warn(`Run ${command_id}: the server refused the result (${failure.text}) It is sent without it.`);
        return sendOne({ ...item, completion: shorter, truncated: true });
      }
    }
    store.outbox.bury(command_id, failure.text, clock.wall());
    log.warn(
      `Run ${command_id}: the server refused its outcome for good: ${failure.text} See \`graph-relay status\`; \`graph-relay retry\` sends it again.`,
    );
    return undefined;
  }

  async function round(): Promise<Failure | undefined> {
    let last: Failure | undefined;
    let failures = 0;
    let cuts = 0;
    const pending = store.outbox.pendingIds();
    for (const id of waiting.keys()) if (!pending.includes(id)) waiting.delete(id);
    for (const id of pending) {
      if ((waiting.get(id)?.due ?? 0) > clock.monotonic()) continue;
      const item = store.outbox.find(id);
      if (!item) continue;
      const failure = await sendOne(item);
      if (!failure) {
        failures = cuts = 0;
        continue;
      }
      last = failure;
      if (failure.kind === "stop" || ++failures >= FAILURES_PER_ROUND) break;
      if (failure.code === "network" && ++cuts >= CUTS_PER_ROUND) break;
    }
    return last;
  }

  let underWay: Promise<Failure | undefined> | undefined;
  return {
    send() {
      underWay ??= round().finally(() => {
        underWay = undefined;
      });
      return underWay;
    },
    hurry() {
      for (const state of waiting.values()) state.due = 0;
    },
    async idle() {
      await underWay?.catch(() => {});
    },
    nextDue() {
      const dues = store.outbox.pendingIds().map((id) => waiting.get(id)?.due ?? 0);
      return dues.length > 0 ? Math.min(...dues) : undefined;
    },
  };
}
