import { createServer } from "node:http";

/** A proxy that lets nothing out and writes down who was asked for. */
export interface ClosedDoor {
  readonly url: string;
  /** The hosts that were asked for since the last call. */
  takeRefused(): string[];
  close(): void;
}

export async function closeDoor(): Promise<ClosedDoor> {
  const refused = new Set<string>();
  const server = createServer((request, response) => {
    refused.add(URL.parse(request.url ?? "")?.host ?? "?");
    response.writeHead(403).end();
  });
  server.on("connect", (request, socket) => {
    refused.add(request.url ?? "?");
    socket.on("error", () => {}).end("HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n");
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const address = server.address();
  return {
    url: `http://127.0.0.1:${typeof address === "object" && address ? address.port : 0}`,
    takeRefused() {
      const hosts = [...refused];
      refused.clear();
      return hosts;
    },
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}
