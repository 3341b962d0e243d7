import type { Attempt, OutboxItem } from "../store/contract.ts";
import { completionOf, STOPPED_OUTCOME } from "./outcome.ts";
import type { RelayPorts } from "./ports.ts";

/**
 * Reports what an earlier relay had started and did not see the end of: `failed`, and never run again. What
 * it had only `prepared` is gone on with by the command taker, with the same attempt and the same checks.
 */
export function reportOrphans(
  ports: Pick<RelayPorts, "store" | "clock" | "log">,
  orphans: readonly Attempt[],
): void {
  for (const attempt of orphans) {
    const item: OutboxItem = {
      command_id: attempt.command_id,
      project_id: attempt.project_id,
      attempt_id: attempt.attempt_id,
      completion: completionOf(attempt.execution_id, STOPPED_OUTCOME),
      truncated: false,
      last_failure: null,
    };
    const record = {
      execution_id: attempt.execution_id,
      outcome: STOPPED_OUTCOME,
      finished_at: ports.clock.wall(),
    };
    if (ports.store.attempts.finish(attempt.command_id, record, item))
      ports.log.warn(
        `${attempt.slug} (${attempt.command_id}) was running when the relay stopped; it is not run again.`,
      );
  }
}
