import { cutText } from "../../src/protocol/completion.ts";
import { LIMITS } from "../../src/protocol/limits.ts";
import type { Progress } from "../../src/protocol/relay-api.ts";
import type { EngineEvent } from "../engine/contract.ts";

type Told = Extract<EngineEvent, { type: "progress" }>["progress"];

/** What a Graph says of itself, in the form the protocol takes: one that does not fit must not cost the heartbeat. */
export function progressOf(told: Told): Progress {
  const message = told.message === undefined ? undefined : plain(told.message);
  return {
    state: told.state,
    ...(message ? { message } : {}),
    ...(told.percent !== undefined && Number.isFinite(told.percent)
      ? { percent: Math.min(Math.max(told.percent, 0), 100) }
      : {}),
  };
}

function plain(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it removes
  const line = text.toWellFormed().replace(/[\u0000-\u001f\u007f-\u009f]+/g, " ");
  return cutText(line, LIMITS.progressCharacters);
}
