import type { EngineEvent } from "../engine/contract.ts";
import type { HistoryStore } from "../store/contract.ts";
import { printable } from "./failure.ts";
import type { RelayClock, RelayLog } from "./ports.ts";

/** Events of one run that are kept at most: a Graph may flood its log. */
const EVENTS_MAX = 20_000;
/** Events are written together, so that a busy log does not cost one disk write a line. */
const BATCH = 200;
const BATCH_MS = 1_000;

/** Files a run's events in the history. Losing some of them to a full disk costs no run. */
export interface Recorder {
  add(event: EngineEvent): void;
  flush(): void;
}

export function createRecorder(
  ports: { clock: RelayClock; log: RelayLog; history: HistoryStore },
  executionId: string,
): Recorder {
  const { clock, history, log } = ports;
  let batch: { at: number; event: EngineEvent }[] = [];
  let since = clock.monotonic();
  let kept = 0;
  let complained = false;

  function flush(): void {
    const events = batch;
    batch = [];
    since = clock.monotonic();
    if (events.length === 0) return;
    try {
      history.addEvents(executionId, events);
    } catch (error) {
      if (!complained)
        log.warn(`Parts of the log of execution ${executionId} are lost: ${printable(String(error))}`);
      complained = true;
    }
  }

  return {
    add(event) {
      if (kept >= EVENTS_MAX) return;
      kept++;
      const last: EngineEvent =
        kept === EVENTS_MAX
          ? { type: "log", line: `[the log is cut here: over ${EVENTS_MAX} entries]` }
          : event;
      batch.push({ at: clock.wall(), event: last });
      if (batch.length >= BATCH || clock.monotonic() - since >= BATCH_MS) flush();
    },
    flush,
  };
}
