import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";

/** A proxy that adds a token to each request. A Host or Origin that names the proxy then names the endpoint; any other goes through. */
export interface TokenProxy {
  readonly url: string;
  close(): Promise<void>;
}

/** Starts one on a free port in front of an endpoint. */
export async function startTokenProxy(target: string, token: string): Promise<TokenProxy> {
  const { host, hostname, port } = new URL(target);
  let own = "";
  const named = (value: string | undefined) => value?.replace(own, host);
  const forward = (incoming: IncomingMessage, answer: ServerResponse) => {
    const headers = {
      ...incoming.headers,
      host: named(incoming.headers.host),
      ...(incoming.headers.origin === undefined ? {} : { origin: named(incoming.headers.origin) }),
      authorization: `Bearer ${token}`,
    };
    const outgoing = request(
      { hostname, port, method: incoming.method, path: incoming.url, headers },
      (response) => {
        answer.writeHead(response.statusCode ?? 502, response.headers);
        response.pipe(answer);
      },
    );
    outgoing.on("error", (error) => answer.destroy(error));
    incoming.pipe(outgoing);
  };
  const server = createServer(forward);
  const listening = await new Promise<number>((resolve, reject) => {
    server.on("error", reject).listen(0, "localhost", () => {
      const address = server.address();
      if (typeof address === "object" && address) resolve(address.port);
    });
  });
  own = `localhost:${listening}`;
  return {
    url: `http://${own}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
