const OPEN = 1;
const CLOSED = 3;
/** RFC 6455 section 7.1.5: the connection just went. */
export const ABNORMAL = 1006;

/**
 * One end of a WebSocket in the world. What is sent on one end reaches the other's `onMessage`, a close its
 * `onClose`; who carries them takes the time and may lose them.
 */
export class SimulatedSocket {
  tags: string[] = [];
  other: SimulatedSocket | undefined;
  onMessage: ((data: unknown) => void) | undefined;
  onClose: ((code: number) => void) | undefined;
  /** The object's platform forgets the socket. */
  onForget: (() => void) | undefined;
  readyState = OPEN;
  #attachment: unknown;

  accept(): void {}

  send(data: unknown): void {
    if (this.readyState !== OPEN) throw new TypeError("Can't call WebSocket send() after close().");
    this.other?.onMessage?.(data);
  }

  close(code = 1000): void {
    if (this.readyState !== OPEN) return;
    this.#end();
    this.other?.otherClosed(code);
  }

  /** The connection is gone, for both ends. */
  drop(): void {
    if (this.readyState !== OPEN) return;
    this.#end();
    this.other?.otherClosed(ABNORMAL);
  }

  serializeAttachment(value: unknown): void {
    this.#attachment = structuredClone(value);
  }

  deserializeAttachment(): unknown {
    return this.#attachment ?? null;
  }

  #end(): void {
    this.readyState = CLOSED;
    this.onForget?.();
  }

  /** The other end closed, or is gone. */
  otherClosed(code: number): void {
    if (this.readyState !== OPEN) return;
    this.#end();
    this.onClose?.(code);
  }
}

type ResponseBody = ConstructorParameters<typeof Response>[0];

/** Gives this thread the platform's sockets: pairs of them, and answers of status 101 that carry one end. */
export function installSockets(): void {
  const RealResponse = globalThis.Response;
  class WorldResponse extends RealResponse {
    constructor(body?: ResponseBody, init: ResponseInit & { webSocket?: SimulatedSocket } = {}) {
      const { webSocket, ...rest } = init;
      super(body, webSocket ? { ...rest, status: 200 } : rest);
      if (webSocket)
        Object.defineProperties(this, { status: { value: 101 }, webSocket: { value: webSocket } });
    }
  }
  class WebSocketPair {
    readonly 0 = new SimulatedSocket();
    readonly 1 = new SimulatedSocket();
    constructor() {
      this[0].other = this[1];
      this[1].other = this[0];
    }
  }
  Object.assign(globalThis, { Response: WorldResponse, WebSocketPair });
}

/** The client's end that an answer to an upgrade carries. */
export const socketOf = (response: Response): SimulatedSocket | undefined =>
  (response as { webSocket?: SimulatedSocket }).webSocket;
