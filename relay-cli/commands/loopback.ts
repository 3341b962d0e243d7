import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { CommandError } from "../exit-codes.ts";

/** How long the person may take, in milliseconds. */
const WAIT_MS = 10 * 60_000;

/** Where the browser brings the answer of a sign-in: a server on the loopback interface, for one answer (RFC 8252 section 7.3). */
export interface Loopback {
  redirectUrl: string;
  /** The parameters of the answer that bears `state`. Answers of other flows are turned away. */
  answer(state: string): Promise<URLSearchParams>;
  close(): void;
}

export async function openLoopback(path: string): Promise<Loopback> {
  let expected: string | undefined;
  let settle: ((params: URLSearchParams) => void) | undefined;
  let timer: NodeJS.Timeout | undefined;
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? "/", "http://127.0.0.1");
    if (request.method !== "GET" || url.pathname !== path)
      return reply(response, 404, "There is nothing here.");
    if (!settle || expected === undefined || url.searchParams.get("state") !== expected)
      return reply(response, 400, "This answer belongs to another sign-in. Start again from the terminal.");
    const said = url.searchParams.has("code") ? "Done" : "Nothing was allowed";
    reply(response, 200, `${said}. You can close this page and go back to the terminal.`);
    settle(url.searchParams);
    settle = undefined;
  });
  await new Promise<void>((resolve, reject) => {
    server.on("error", reject).listen(0, "127.0.0.1", resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    redirectUrl: `http://127.0.0.1:${port}${path}`,
    answer(state) {
      expected = state;
      return new Promise((resolve, reject) => {
        timer = setTimeout(
          () => reject(new CommandError("failed", "Nobody answered in the browser within 10 minutes.")),
          WAIT_MS,
        );
        settle = (params) => {
          clearTimeout(timer);
          resolve(params);
        };
      });
    },
    close() {
      clearTimeout(timer);
      server.close();
      server.closeAllConnections();
    },
  };
}

function reply(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, {
    "content-type": "text/html; charset=utf-8",
    "content-security-policy": "default-src 'none'",
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    connection: "close",
  });
  response.end(`<!doctype html><meta charset="utf-8"><title>graph-relay</title><p>${text}</p>`);
}
