import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { type FakeServer, SERVER } from "./server.ts";

/** The fake server behind a real port of the loopback interface. */
export async function listen(server: FakeServer): Promise<{ url: string; close(): Promise<void> }> {
  const http = createServer(async (request, response) => {
    const text = await body(request);
    try {
      const answer = await server.transport(`${SERVER}${request.url}`, {
        method: request.method as "POST",
        headers: { authorization: request.headers.authorization ?? "" },
        ...(text === "" ? {} : { body: text }),
        redirect: "manual",
        signal: new AbortController().signal,
      });
      response.writeHead(answer.status, Object.fromEntries(answer.headers));
      response.end(await answer.text());
    } catch {
      request.socket.destroy();
    }
  });
  await new Promise<void>((done) => http.listen(0, "127.0.0.1", done));
  return {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}`,
    close: () =>
      new Promise((done) => {
        http.close(() => done());
        http.closeAllConnections();
      }),
  };
}

async function body(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString("utf8");
}
