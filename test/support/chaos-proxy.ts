import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import { connect, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { RELAY_PATH } from "../../src/protocol/relay-api.ts";

/** The calls of a relay, and an agent's. */
export type CallKind = "token" | "sync" | "start" | "control" | "complete" | "mcp" | "other";

export interface Answer {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  body: Buffer;
}

/** One request on its way through, whole, and what can become of it. */
interface Exchange {
  readonly kind: CallKind;
  readonly body: Buffer;
  /** Asks the endpoint. Rejects if it gives no whole answer. */
  forward(): Promise<Answer>;
  /** Sends the endpoint half of the request and hangs up. */
  forwardHalf(): Promise<void>;
  answer(answer: Answer): void;
  /** Sends half of the answer and hangs up. */
  answerHalf(answer: Answer): void;
  /** Hangs up without an answer. */
  cut(): void;
}

/** What is done with one exchange. One that throws cuts it. */
export type Treatment = (exchange: Exchange) => Promise<void> | void;

/** Nothing goes wrong. */
const pass: Treatment = async (exchange) => exchange.answer(await exchange.forward());

/** An answer of something in between, which the endpoint knows nothing of. */
const foreign =
  (status: number, type: string, text: string): Treatment =>
  (exchange) =>
    exchange.answer({ status, headers: { "content-type": type }, body: Buffer.from(text) });

/** What networks do to a call, by name. */
export const TREATMENTS = {
  "cut before it arrives": (exchange) => exchange.cut(),
  "cut half-way in": async (exchange) => {
    await exchange.forwardHalf();
    exchange.cut();
  },
  "cut half-way back": async (exchange) => exchange.answerHalf(await exchange.forward()),
  "answer lost": async (exchange) => {
    await exchange.forward();
    exchange.cut();
  },
  "503 of ours": foreign(503, "application/json", '{"error":"unavailable","error_description":"Busy."}'),
  "429 of ours": foreign(429, "application/json", '{"error":"rate_limited","error_description":"Wait."}'),
  "502 of a gateway that passed it on": async (exchange) => {
    await exchange.forward();
    await foreign(502, "text/html", "<html>Bad gateway</html>")(exchange);
  },
  "HTML with 200": foreign(200, "text/html", "<html>Please sign in to the network</html>"),
  "413": foreign(413, "text/html", "<html>Too large</html>"),
} as const satisfies Record<string, Treatment>;
export type TreatmentName = keyof typeof TREATMENTS;

/** A proxy of the loopback interface in front of the endpoint, which treats calls as it is told to. */
export class ChaosProxy {
  readonly #next = new Map<CallKind, Treatment[]>();
  readonly #server;
  readonly #target: URL;
  readonly #sockets = new Set<Duplex>();
  readonly #host: string | undefined;
  /** How many exchanges of each kind were treated by order. */
  readonly treated = new Map<CallKind, number>();
  url = "";

  /** Without `host`, the endpoint is known by the proxy's own address; with it, by that one. */
  private constructor(target: string, host?: string) {
    this.#target = new URL(target);
    this.#host = host;
    this.#server = createServer((incoming, response) => void this.#handle(incoming, response));
    this.#server.on("upgrade", (incoming, client, head) => this.#pipe(incoming, client, head));
  }

  static async open(target: string, host?: string): Promise<ChaosProxy> {
    const proxy = new ChaosProxy(target, host);
    const server = proxy.#server;
    await new Promise<void>((done, failed) =>
      server.on("error", failed).listen(0, "localhost", () => done()),
    );
    const address = server.address();
    if (typeof address === "object" && address) proxy.url = `http://localhost:${address.port}`;
    return proxy;
  }

  /** Treats the next call of a kind so; orders for one kind are followed one after the other. */
  next(kind: CallKind, treatment: Treatment): void {
    this.#next.set(kind, [...(this.#next.get(kind) ?? []), treatment]);
  }

  /** Forgets every order that was not followed yet. */
  calm(): void {
    this.#next.clear();
  }

  /** Hangs up every wake socket. */
  cutSockets(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  close(): Promise<void> {
    this.cutSockets();
    return new Promise((done) => {
      this.#server.close(() => done());
      this.#server.closeAllConnections();
    });
  }

  async #handle(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await whole(incoming).catch(() => undefined);
    if (!body) return;
    const kind = kindOf(incoming.url ?? "");
    const ordered = this.#next.get(kind)?.shift();
    if (ordered) this.treated.set(kind, (this.treated.get(kind) ?? 0) + 1);
    const cut = () => void incoming.socket.destroy();
    const head = (answer: Answer) => {
      const { "transfer-encoding": _, connection: __, ...headers } = answer.headers;
      response.writeHead(answer.status, { ...headers, "content-length": answer.body.length });
    };
    try {
      await (ordered ?? pass)({
        kind,
        body,
        forward: () => this.#forward(incoming, body),
        forwardHalf: () => this.#forwardHalf(incoming, body),
        answer(answer) {
          head(answer);
          response.end(answer.body);
        },
        answerHalf(answer) {
          head(answer);
          response.write(answer.body.subarray(0, answer.body.length >> 1), cut);
        },
        cut,
      });
    } catch {
      cut();
    }
  }

  /** Lets a wake socket through, byte by byte. */
  #pipe(incoming: IncomingMessage, client: Duplex, head: Buffer): void {
    const upstream: Socket = connect(Number(this.#target.port), this.#target.hostname, () => {
      const lines = [`${incoming.method} ${incoming.url} HTTP/1.1`];
      for (let i = 0; i < incoming.rawHeaders.length; i += 2)
        lines.push(`${incoming.rawHeaders[i]}: ${incoming.rawHeaders[i + 1]}`);
      upstream.write(`${lines.join("\r\n")}\r\n\r\n`);
      upstream.write(head);
      client.pipe(upstream).pipe(client);
    });
    for (const [one, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      this.#sockets.add(one);
      one.on("error", () => other.destroy());
      one.on("close", () => {
        this.#sockets.delete(one);
        other.destroy();
      });
    }
  }

  #outgoing(incoming: IncomingMessage, length: number) {
    const { "transfer-encoding": _, connection: __, ...headers } = incoming.headers;
    return request({
      hostname: this.#target.hostname,
      port: this.#target.port,
      method: incoming.method,
      path: incoming.url,
      headers: { ...headers, host: this.#host ?? headers.host, "content-length": length },
      // A connection of its own: one that an endpoint left open when it was killed would fail the next call.
      agent: false,
    });
  }

  #forward(incoming: IncomingMessage, body: Buffer): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const outgoing = this.#outgoing(incoming, body.length);
      outgoing.on("error", reject).on("response", (answer) => {
        whole(answer).then(
          (text) => resolve({ status: answer.statusCode ?? 502, headers: answer.headers, body: text }),
          reject,
        );
      });
      outgoing.end(body);
    });
  }

  #forwardHalf(incoming: IncomingMessage, body: Buffer): Promise<void> {
    return new Promise((resolve) => {
      const outgoing = this.#outgoing(incoming, body.length);
      outgoing.on("error", () => resolve()).on("close", resolve);
      outgoing.write(body.subarray(0, body.length >> 1), () => outgoing.destroy());
    });
  }
}

async function whole(stream: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

function kindOf(path: string): CallKind {
  if (path === "/mcp") return "mcp";
  if (!path.startsWith(RELAY_PATH)) return "other";
  const name = path.split("/").at(-1);
  return name === "token" || name === "sync" || name === "start" || name === "control" || name === "complete"
    ? name
    : "other";
}
