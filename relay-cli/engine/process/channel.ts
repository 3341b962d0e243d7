import { StringDecoder } from "node:string_decoder";
import { ENGINE_LIMITS } from "../limits.ts";

/**
 * How a Graph's process and the engine talk over one stream: lines of UTF-8, each a piece of JSON text.
 * A line is a kind (`M` message, `R` the result's text), a mark (`+` more follows, `.` the last piece) and
 * the piece. JSON text holds no line break, so a break always ends a piece.
 */
export type FrameKind = "M" | "R";

/** The lines that carry `text`, cut so that no piece ends inside a surrogate pair. */
export function* encodeFrames(
  kind: FrameKind,
  text: string,
  size: number = ENGINE_LIMITS.chunkCharacters,
): Generator<string> {
  let start = 0;
  while (text.length - start > size) {
    const last = text.charCodeAt(start + size - 1);
    const end = last >= 0xd800 && last <= 0xdbff ? start + size - 1 : start + size;
    yield `${kind}+${text.slice(start, end)}\n`;
    start = end;
  }
  yield `${kind}.${text.slice(start)}\n`;
}

/** A whole text that arrived, or why the stream cannot be believed any more. */
export type Frame = { kind: FrameKind; text: string } | { kind: "fault"; text: string };

/** Puts pieces together again, within bounds: what a hostile sender can make it hold is `limits` and one line. */
export function createFrameDecoder(
  limits: Readonly<Record<FrameKind, number>> = {
    M: ENGINE_LIMITS.messageCharacters,
    R: ENGINE_LIMITS.resultCharacters,
  },
): (bytes: Uint8Array) => Frame[] {
  const utf8 = new StringDecoder("utf8");
  let line: string[] = [];
  let lineLength = 0;
  const parts: Record<FrameKind, string[]> = { M: [], R: [] };
  const lengths: Record<FrameKind, number> = { M: 0, R: 0 };
  let dead = false;

  const fault = (text: string): Frame => {
    dead = true;
    return { kind: "fault", text };
  };
  const takeLine = (text: string): Frame | undefined => {
    const kind = text[0];
    const mark = text[1];
    if ((kind !== "M" && kind !== "R") || (mark !== "+" && mark !== "."))
      return fault("a line that is no frame");
    lengths[kind] += text.length - 2;
    if (lengths[kind] > limits[kind])
      return fault(
        kind === "R"
          ? `a result of more than ${limits.R} characters`
          : `a message of more than ${limits.M} characters`,
      );
    parts[kind].push(text.slice(2));
    if (mark === "+") return undefined;
    const whole = parts[kind].join("");
    parts[kind] = [];
    lengths[kind] = 0;
    return { kind, text: whole };
  };

  return (bytes) => {
    const frames: Frame[] = [];
    if (dead) return frames;
    const text = utf8.write(bytes as Buffer);
    let start = 0;
    for (let end = text.indexOf("\n"); end !== -1; end = text.indexOf("\n", start)) {
      const whole = line.join("") + text.slice(start, end);
      line = [];
      lineLength = 0;
      start = end + 1;
      const frame = takeLine(whole);
      if (frame) frames.push(frame);
      if (dead) return frames;
    }
    line.push(text.slice(start));
    lineLength += text.length - start;
    if (lineLength > 2 * ENGINE_LIMITS.chunkCharacters) frames.push(fault("a line without an end"));
    return frames;
  };
}
