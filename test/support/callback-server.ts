import { createServer } from "node:http";

/** A client's loopback address, to which the browser brings its answers. */
export interface CallbackServer {
  readonly url: string;
  /** The next answer that arrives. */
  next(): Promise<URL>;
  close(): Promise<void>;
}

export async function startCallbackServer(): Promise<CallbackServer> {
  const waiting: ((url: URL) => void)[] = [];
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? "/", "http://127.0.0.1");
    response.writeHead(200, { "content-type": "text/plain" }).end("The client has its answer.");
    if (url.pathname === "/callback") waiting.shift()?.(url);
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const address = server.address();
  const port = typeof address === "object" && address ? address.port : 0;
  return {
    url: `http://127.0.0.1:${port}/callback`,
    next: () => new Promise((done) => waiting.push(done)),
    close: () =>
      new Promise((done) => {
        server.close(() => done());
        server.closeAllConnections();
      }),
  };
}
