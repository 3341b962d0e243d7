import type { EngineEvent } from "./contract.ts";
import { cutText } from "./error-text.ts";
import { ENGINE_LIMITS } from "./limits.ts";

/** Passes a run's log on within bounds, and says at the end what was left out. */
export interface RunLog {
  line(text: string): void;
  /** Takes the raw output of one stream; a line may come in pieces. */
  output(): (bytes: Uint8Array) => void;
  end(): void;
}

// A terminal obeys control characters; a log must not be able to.
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it takes out
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;

export function createRunLog(emit: (event: EngineEvent) => void): RunLog {
  let lines = 0;
  let characters = 0;
  let dropped = 0;
  const ends: (() => void)[] = [];

  const line = (text: string): void => {
    const cut = cutText(text.replace(CONTROL, "\ufffd").toWellFormed(), ENGINE_LIMITS.logLineCharacters);
    if (lines >= ENGINE_LIMITS.logLines || characters + cut.length > ENGINE_LIMITS.logCharacters) {
      dropped++;
      return;
    }
    lines++;
    characters += cut.length;
    emit({ type: "log", line: cut });
  };
  return {
    line,
    output() {
      const utf8 = new TextDecoder();
      let partial = "";
      ends.push(() => {
        if (partial !== "") line(partial);
      });
      return (bytes) => {
        const pieces = (partial + utf8.decode(bytes, { stream: true })).split("\n");
        partial = cutText(pieces.pop() ?? "", ENGINE_LIMITS.logLineCharacters);
        for (const piece of pieces) line(piece.endsWith("\r") ? piece.slice(0, -1) : piece);
      };
    },
    end() {
      for (const endStream of ends) endStream();
      if (dropped > 0) emit({ type: "log", line: `(${dropped} more lines were written and not kept)` });
    },
  };
}
