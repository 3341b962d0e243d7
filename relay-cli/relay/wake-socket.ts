// The modules themselves: setting the proxy changes their agent, which a named import would not see.
import http from "node:http";
import https from "node:https";
import { type ClientOptions, WebSocket } from "ws";
import { WAKE_MESSAGE } from "../../src/protocol/wake.ts";
import type { WakeConnector, WakeRefusal } from "./ports.ts";

/** The largest message, and the largest answer that is none, in bytes. */
const MESSAGE_BYTES_MAX = 1_024;
const REFUSAL_BYTES_MAX = 65_536;
/** A server that said farewell may take this long to hang up: workerd does so only once the object sleeps. */
const HANG_UP_MS = 500;
/** RFC 6455 section 7.4.1. */
const NORMAL_CLOSE = 1000;

/** A wake socket of the platform's network. */
export const systemWakeSocket: WakeConnector = (url, token, wake) => {
  // The types do not know `closeTimeout` yet.
  const options: ClientOptions & { closeTimeout: number } = {
    headers: { authorization: `Bearer ${token}` },
    // Node's own agent of this moment goes through the proxy that the environment names; ws alone does not.
    agent: url.startsWith("https:") ? https.globalAgent : http.globalAgent,
    perMessageDeflate: false,
    maxPayload: MESSAGE_BYTES_MAX,
    closeTimeout: HANG_UP_MS,
  };
  const socket = new WebSocket(url, options);
  const opened = new Promise<"open" | WakeRefusal>((resolve) => {
    socket.once("open", () => resolve("open"));
    socket.on("error", (error) => {
      resolve({ error });
      socket.terminate();
    });
    socket.once("unexpected-response", (_, response) => {
      void refusalOf(response).then((refusal) => {
        resolve(refusal);
        socket.terminate();
      });
    });
  });
  const ended = new Promise<number>((resolve) => {
    socket.once("close", resolve);
  });
  socket.on("message", (data) => {
    if (String(data) === WAKE_MESSAGE) wake();
  });
  return {
    opened,
    ended,
    ping: () =>
      new Promise((resolve) => {
        socket.once("pong", () => resolve());
        if (socket.readyState === WebSocket.OPEN) socket.ping();
      }),
    end() {
      // The farewell is sent, and its answer not waited for: that would hold up the end of the relay.
      if (socket.readyState === WebSocket.OPEN) socket.close(NORMAL_CLOSE);
      socket.terminate();
    },
  };
};

async function refusalOf(response: http.IncomingMessage): Promise<WakeRefusal> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) {
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes > REFUSAL_BYTES_MAX) break;
    }
  } catch (error) {
    return { error };
  }
  const headers = new Headers();
  for (const [name, value] of Object.entries(response.headers)) headers.set(name, String(value));
  return { status: response.statusCode ?? 0, headers, body: Buffer.concat(chunks).toString("utf8") };
}
