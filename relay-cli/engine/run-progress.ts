import type { EngineEvent } from "./contract.ts";
import { cutText } from "./error-text.ts";
import { ENGINE_LIMITS } from "./limits.ts";
import type { EngineClock } from "./ports.ts";

type Progress = Extract<EngineEvent, { type: "progress" }>["progress"];

/** What is told of a run's progress: the Graph's own word, and above it what the run waits for. */
export interface RunProgress {
  /** The Graph's word. At most ten a second are passed on; of more, the last. */
  graph(said: { message?: string; percent?: number }): void;
  /** What the owner is asked; undefined once nothing is. Passed on at once, and the Graph's word waits meanwhile. */
  waiting(what: string | undefined): void;
  /** Passes on what was held back. */
  end(): void;
}

const GAP_MILLISECONDS = 100;

export function createRunProgress(clock: EngineClock, emit: (event: EngineEvent) => void): RunProgress {
  let latest: Progress = { state: "running" };
  let isWaiting = false;
  let lastAt = Number.NEGATIVE_INFINITY;
  let cancelLater: (() => void) | undefined;

  const tell = (progress: Progress): void => {
    cancelLater?.();
    cancelLater = undefined;
    lastAt = clock.elapsed();
    emit({ type: "progress", progress });
  };
  return {
    graph({ message, percent }) {
      latest = {
        state: "running",
        ...(message === undefined ? {} : { message: plain(message) }),
        ...(percent === undefined ? {} : { percent: Math.min(100, Math.max(0, percent)) }),
      };
      if (isWaiting || cancelLater !== undefined) return;
      const wait = lastAt + GAP_MILLISECONDS - clock.elapsed();
      if (wait <= 0) tell(latest);
      else cancelLater = clock.after(wait, () => tell(latest));
    },
    waiting(what) {
      isWaiting = what !== undefined;
      tell(what === undefined ? latest : { state: "awaiting_approval", message: plain(what) });
    },
    end() {
      if (cancelLater !== undefined) tell(latest);
    },
  };
}

const plain = (text: string): string =>
  cutText(text.replace(/\p{Cc}/gu, " ").toWellFormed(), ENGINE_LIMITS.progressCharacters);
