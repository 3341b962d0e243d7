import type * as net from "node:net";
import type { Json } from "../contract.ts";
import { ENGINE_LIMITS } from "../limits.ts";
import { createFrameDecoder, encodeFrames, type FrameKind } from "../process/channel.ts";
import type { FromHost, HostCall, ToHost, WireError } from "../process/messages.ts";

/** A Graph's process's side of the channel to the engine. */
export interface EngineLink {
  send(message: FromHost): void;
  /** Sends a text that is JSON already. */
  sendText(kind: FrameKind, text: string): void;
  /** Asks the engine for something and waits. Keeps the process alive meanwhile. */
  call(call: HostCall): Promise<Json>;
  /** Resolves once all that was sent is with the operating system. */
  flushed(): Promise<void>;
}

/** An error that came from the engine, with its code. */
class FromEngine extends Error {
  readonly code: string | undefined;
  constructor(error: WireError) {
    super(error.message);
    this.name = error.name;
    this.code = error.code;
  }
}

/**
 * Joins the channel. `onGone` is called when the engine's end closes, however it went; the channel alone does
 * not keep the process alive, a call under way does.
 */
export function joinEngine(
  socket: net.Socket,
  on: { message(message: ToHost): void; gone(): void },
): EngineLink {
  const decode = createFrameDecoder();
  const pending = new Map<number, { resolve(value: Json): void; reject(error: unknown): void }>();
  let lastId = 0;

  const settle = (message: Extract<ToHost, { t: "reply" }>): void => {
    const waiting = pending.get(message.id);
    pending.delete(message.id);
    if (message.ok) waiting?.resolve(message.value);
    else waiting?.reject(new FromEngine(message.error));
  };
  socket.on("data", (bytes) => {
    for (const frame of decode(bytes)) {
      if (frame.kind === "fault") return on.gone();
      const message = JSON.parse(frame.text) as ToHost;
      if (message.t === "reply") settle(message);
      else on.message(message);
      // Only calls under way keep the process alive: a Graph that waits for nothing ends.
      if (pending.size === 0) socket.unref();
    }
  });
  socket.on("error", on.gone);
  socket.on("close", on.gone);

  const sendText = (kind: FrameKind, text: string): void => {
    for (const line of encodeFrames(kind, text)) socket.write(line);
  };
  return {
    sendText,
    send: (message) => sendText("M", JSON.stringify(message)),
    call(call) {
      const text = JSON.stringify({ t: "call", id: ++lastId, ...call });
      if (text.length > ENGINE_LIMITS.messageCharacters)
        return Promise.reject(
          new FromEngine({
            name: "EngineError",
            code: "limit",
            message: `${call.fn}: its input is over ${ENGINE_LIMITS.messageCharacters} characters.`,
          }),
        );
      const { promise, resolve, reject } = Promise.withResolvers<Json>();
      pending.set(lastId, { resolve, reject });
      socket.ref();
      sendText("M", text);
      return promise;
    },
    flushed: async () => {
      await Promise.all(
        [process.stdout, process.stderr, socket].map(
          (stream) => new Promise<void>((resolve) => stream.write("", () => resolve())),
        ),
      );
    },
  };
}
