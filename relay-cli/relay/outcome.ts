import { boundCompletion, type Completion, truncateCompletion } from "../../src/protocol/completion.ts";
import { RELAY_STOPPED } from "../../src/protocol/errors.ts";
import { findJsonFault } from "../../src/protocol/json.ts";
import { LIMITS } from "../../src/protocol/limits.ts";
import type { RunOutcome } from "../engine/contract.ts";

/** Why a running Graph was told to stop. The first reason stands. */
export type StopReason = "cancel_requested" | "not_ours" | "owner";

const STOP_TEXTS: Readonly<Record<StopReason, string>> = {
  cancel_requested: "Cancelled on request",
  not_ours: "Stopped: the server no longer expected this run",
  owner: "Stopped by the owner of the desktop",
};

/**
 * How the run stands in the record. One that was told to stop is `cancelled`, even if it came to its own end
 * in between; then the record says so, because its side effects happened.
 */
export function settleOutcome(outcome: RunOutcome, stop: StopReason | undefined): RunOutcome {
  const clean: RunOutcome = {
    ...outcome,
    total_tokens: countOrNull(outcome.total_tokens),
    reported_cost: amountOrNull(outcome.reported_cost),
  };
  if (!stop) return clean;
  const ownEnd = outcome.status !== "cancelled" || outcome.finished_before_stop === true;
  return {
    ...clean,
    status: "cancelled",
    error: outcome.error ?? STOP_TEXTS[stop],
    ...(ownEnd ? { finished_before_stop: true } : {}),
  };
}

/** What is sent of it: whole within the bounds, otherwise without the result. */
export function completionOf(executionId: string, outcome: RunOutcome): Completion {
  const base: Completion = {
    execution_id: executionId,
    status: outcome.status,
    total_tokens: outcome.total_tokens,
    reported_cost: outcome.reported_cost,
    ...(outcome.error === undefined ? {} : { error: outcome.error }),
    ...(outcome.finished_before_stop === undefined
      ? {}
      : { finished_before_stop: outcome.finished_before_stop }),
  };
  if (outcome.result_json === undefined) return boundCompletion(base);
  if (outcome.result_json.length > LIMITS.completionCharacters)
    return truncateCompletion(boundCompletion(base));
  const fault = findJsonFault(outcome.result_json);
  if (fault) {
    const text = `The result was not sent: it ${fault.text}. It is whole in the history of the desktop.`;
    return truncateCompletion(boundCompletion({ ...base, error: base.error ?? text }));
  }
  return boundCompletion({ ...base, result: JSON.parse(outcome.result_json) });
}

/** What the record says of a run that its relay did not live to see the end of. */
export const STOPPED_OUTCOME: RunOutcome = {
  status: "failed",
  error: RELAY_STOPPED,
  finished_before_stop: false,
  total_tokens: null,
  reported_cost: null,
};

const countOrNull = (n: number | null): number | null =>
  n !== null && Number.isSafeInteger(n) && n >= 0 ? n : null;
const amountOrNull = (n: number | null): number | null =>
  n !== null && Number.isFinite(n) && n >= 0 ? n : null;
