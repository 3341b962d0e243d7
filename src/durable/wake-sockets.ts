import { WAKE_CLIENT_CHARACTERS, WAKE_CLOSES, WAKE_MESSAGE, type WakeClose } from "../protocol/wake.ts";

/** RFC 6455 section 7.4.1. */
const NORMAL_CLOSE = 1000;

/**
 * The open wake sockets of a project's devices, at most one each. The platform holds them while the object
 * sleeps, tagged with their device, so there is nothing to store and no timer: a laptop that waits costs
 * nothing but its pings, which the platform answers itself.
 */
export class WakeSockets {
  readonly #ctx: DurableObjectState;

  constructor(ctx: DurableObjectState) {
    this.#ctx = ctx;
  }

  /** The answer to the upgrade. The device's older socket is closed. */
  accept(device_id: string): Response {
    for (const older of this.#open(device_id)) close(older, "replaced");
    const { 0: client, 1: server } = new WebSocketPair();
    this.#ctx.acceptWebSocket(server, [device_id]);
    return new Response(null, { status: 101, webSocket: client });
  }

  /** Tells the device that there is something. Never throws. */
  wake(device_id: string): void {
    for (const socket of this.#open(device_id)) {
      try {
        socket.send(WAKE_MESSAGE);
      } catch {
        // It broke just now. The device's next pass finds what there is.
      }
    }
  }

  isOpen(device_id: string): boolean {
    return this.#open(device_id).length > 0;
  }

  /** Closes the sockets of devices that are no longer on the list. */
  closeRemoved(isListed: (device_id: string) => boolean): void {
    for (const socket of this.#open()) {
      const [device_id = ""] = this.#ctx.getTags(socket);
      if (!isListed(device_id)) close(socket, "device_removed");
    }
  }

  closeAll(): void {
    for (const socket of this.#open()) close(socket, "project_not_found");
  }

  /** What a device says is not read; one that says much is not a relay of ours. */
  received(socket: WebSocket, message: string | ArrayBuffer): void {
    const length = typeof message === "string" ? message.length : message.byteLength;
    if (length > WAKE_CLIENT_CHARACTERS) close(socket, "message_too_big");
  }

  /** Answers the laptop's close. The platform would too, but only once the object falls asleep. */
  closed(socket: WebSocket): void {
    socket.close(NORMAL_CLOSE);
  }

  /** One that was closed stays among the platform's for as long as its other end has not answered. */
  #open(device_id?: string): WebSocket[] {
    return this.#ctx.getWebSockets(device_id).filter((socket) => socket.readyState === WebSocket.OPEN);
  }
}

function close(socket: WebSocket, why: WakeClose): void {
  const { code, text } = WAKE_CLOSES[why];
  socket.close(code, text);
}
