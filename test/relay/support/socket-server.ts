import { createHash } from "node:crypto";
import { createServer, type Server } from "node:http";
import { createServer as createSecureServer } from "node:https";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import { CERTIFICATE, KEY } from "./tls.ts";

const [TEXT, CLOSE, PING, PONG] = [1, 8, 9, 10];

/** A server of WebSockets by hand (RFC 6455), so that what a client sends is seen as it is. */
export class SocketServer {
  readonly #http: Server;
  readonly #secure: boolean;
  readonly #sockets = new Set<Duplex>();
  /** What is done with an upgrade: taken up, left hanging, or answered so. */
  upgrade: "take" | "hang" | string = "take";
  readonly headers: NodeJS.Dict<string | string[]>[] = [];
  /** Codes of the closes that clients sent. */
  readonly closes: number[] = [];

  constructor(secure = false) {
    this.#secure = secure;
    this.#http = secure ? createSecureServer({ key: KEY, cert: CERTIFICATE }) : createServer();
    this.#http.on("upgrade", (request, socket) => {
      this.headers.push(request.headers);
      this.#sockets.add(socket);
      socket.on("error", () => {}).on("close", () => this.#sockets.delete(socket));
      socket.on("end", () => socket.end()).resume();
      if (this.upgrade === "hang") return;
      if (this.upgrade !== "take") return void socket.end(this.upgrade);
      const accept = createHash("sha1")
        .update(`${request.headers["sec-websocket-key"]}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`)
        .digest("base64");
      const head = ["Upgrade: websocket", "Connection: Upgrade", `Sec-WebSocket-Accept: ${accept}`];
      socket.write(`HTTP/1.1 101 Switching Protocols\r\n${head.join("\r\n")}\r\n\r\n`);
      socket.on("data", (bytes) => this.#receive(socket, bytes));
    });
  }

  async listen(): Promise<string> {
    await new Promise<void>((done) => this.#http.listen(0, "127.0.0.1", done));
    const { port } = this.#http.address() as AddressInfo;
    return `${this.#secure ? "https://localhost" : "http://127.0.0.1"}:${port}`;
  }

  /** Resolves once a client holds a connection here. */
  async connected(): Promise<void> {
    while (this.#sockets.size === 0) await new Promise<void>((resolve) => setImmediate(resolve));
  }

  /** Resolves once no client does. */
  async left(): Promise<void> {
    while (this.#sockets.size > 0) await new Promise<void>((resolve) => setImmediate(resolve));
  }

  send(text: string): void {
    const payload = Buffer.from(text);
    const length = payload.length < 126 ? [payload.length] : [126, payload.length >> 8, payload.length & 255];
    for (const socket of this.#sockets)
      socket.write(Buffer.concat([Buffer.from([0x80 | TEXT, ...length]), payload]));
  }

  close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    return new Promise((done) => {
      this.#http.close(() => done());
      this.#http.closeAllConnections();
    });
  }

  /** One short, masked frame after the other. */
  #receive(socket: Duplex, bytes: Buffer): void {
    for (let at = 0; at < bytes.length; ) {
      const [first = 0, second = 0] = bytes.subarray(at);
      const length = second & 0x7f;
      const mask = bytes.subarray(at + 2, at + 6);
      const payload = bytes.subarray(at + 6, at + 6 + length).map((byte, i) => byte ^ (mask[i % 4] ?? 0));
      at += 6 + length;
      if ((first & 0xf) === PING) socket.write(Buffer.from([0x80 | PONG, 0]));
      if ((first & 0xf) === CLOSE) this.closes.push(Buffer.from(payload).readUInt16BE());
    }
  }
}
