import * as z from "zod";
import { uuid } from "./ids.ts";
import { LIMITS } from "./limits.ts";
import { OUTCOME_STATES } from "./states.ts";

const text = (max: number) => z.string().max(max);

/**
 * How a run ended, as the relay sends it (write-up, "How big can the result be"). Its JSON is at most
 * `LIMITS.completionCharacters` long; a longer one goes without `result` and says so.
 */
export const completion = z.object({
  /** Finds the full record in the laptop's history. */
  execution_id: uuid,
  status: z.enum(OUTCOME_STATES),
  /** Whatever JSON value the Graph returned. */
  result: z.unknown().optional(),
  /** The result was too large to send; it is whole in the laptop's history. */
  result_truncated: z.literal(true).optional(),
  /** Tokens of every agent in the run, sub-Graphs included; null when none was counted. */
  total_tokens: z.number().int().min(0).nullish(),
  /** In US dollars, if the owner configured the provider's price. */
  reported_cost: z.number().min(0).nullish(),
  /** Why it failed or was cancelled. */
  error: text(LIMITS.errorCharacters).optional(),
  /**
   * The run was told to stop and came to its own end first: its side effects happened. False: it did not come
   * to its own end. Absent: the relay did not know of a stop.
   */
  finished_before_stop: z.boolean().optional(),
});
export type Completion = z.infer<typeof completion>;

/** `value` cut to `max` UTF-16 units, one less where the cut would split a surrogate pair. */
export function cutText(value: string, max: number): string {
  if (value.length <= max) return value;
  const last = value.charCodeAt(max - 1);
  const splits = last >= 0xd800 && last <= 0xdbff;
  return value.slice(0, splits ? max - 1 : max);
}

/**
 * The completion as it is sent: whole if its JSON is at most `LIMITS.completionCharacters` UTF-16 units,
 * otherwise without the result, marked `result_truncated`. The error is cut to `LIMITS.errorCharacters`
 * in both. `full.result` must come from `JSON.parse` or be JSON-safe.
 */
export function boundCompletion(full: Completion): Completion {
  const cut: Completion =
    full.error === undefined ? full : { ...full, error: cutText(full.error, LIMITS.errorCharacters) };
  if (JSON.stringify(cut).length <= LIMITS.completionCharacters) return cut;
  return truncateCompletion(cut);
}

/** The completion without its result: what is sent when the result is too large, or was refused as too large. */
export function truncateCompletion(full: Completion): Completion {
  return {
    execution_id: full.execution_id,
    status: full.status,
    result_truncated: true,
    ...(full.error === undefined ? {} : { error: full.error }),
    ...(full.finished_before_stop === undefined ? {} : { finished_before_stop: full.finished_before_stop }),
  };
}
