import { createServer } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";

/** A proxy such as companies have: the way out of a network, by CONNECT alone. It can lose answers. */
export interface Tunnel {
  url: string;
  /** Targets that were asked for, such as `localhost:8787`. */
  targets: string[];
  /** How many answers to requests that hold this text are lost from now on. */
  lose(text: string, times: number): void;
  lost(): number;
  close(): Promise<void>;
}

export async function openTunnel(): Promise<Tunnel> {
  let text = "";
  let left = 0;
  let lost = 0;
  const targets: string[] = [];
  const sockets = new Set<Socket>();
  const server = createServer((_, response) => response.writeHead(405).end());
  server.on("connect", (request, client: Socket) => {
    targets.push(request.url ?? "");
    const [host = "", port] = (request.url ?? "").split(":");
    const upstream = connect(Number(port), host, () =>
      client.write("HTTP/1.1 200 Connection Established\r\n\r\n"),
    );
    let sent = "";
    client.on("data", (chunk) => {
      sent += chunk.toString("latin1");
      upstream.write(chunk);
    });
    upstream.on("data", (chunk) => {
      if (left > 0 && sent.includes(text)) {
        left--;
        lost++;
        client.destroy();
        upstream.destroy();
      } else client.write(chunk);
      sent = "";
    });
    for (const [one, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(one);
      one.on("error", () => other.destroy());
      one.on("close", () => {
        sockets.delete(one);
        other.destroy();
      });
    }
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    targets,
    lose(which, times) {
      text = which;
      left = times;
    },
    lost: () => lost,
    close: () =>
      new Promise((done) => {
        for (const socket of sockets) socket.destroy();
        server.close(() => done());
      }),
  };
}
