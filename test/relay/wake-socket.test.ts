import * as http from "node:http";
import * as tls from "node:tls";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { WakeSocket } from "../../relay-cli/relay/ports.ts";
import { systemWakeSocket } from "../../relay-cli/relay/wake-socket.ts";
import { WAKE_MESSAGE } from "../../src/protocol/wake.ts";
import { SocketServer } from "./support/socket-server.ts";
import { CERTIFICATE } from "./support/tls.ts";
import { openTunnel } from "./support/tunnel.ts";

// The relay's own sockets against a server of the loopback interface.

let server: SocketServer;
let url: string;
let wakes: number;
let sockets: WakeSocket[];
const connect = () => {
  const socket = systemWakeSocket(`${url}/wake?project_id=p`, "secret", () => wakes++);
  sockets.push(socket);
  return socket;
};

beforeEach(async () => {
  wakes = 0;
  sockets = [];
  server = new SocketServer();
  url = await server.listen();
});
afterEach(async () => {
  for (const socket of sockets) socket.end();
  await Promise.all(sockets.map((socket) => socket.ended));
  await server.close();
});

describe("a wake socket of the network", () => {
  test("shows the token in its header, and offers no compression", async () => {
    expect(await connect().opened).toBe("open");
    const [headers] = server.headers;
    expect(headers?.authorization).toBe("Bearer secret");
    expect(headers?.["sec-websocket-extensions"]).toBeUndefined();
  });

  test("calls for the wake message and no other, and is over after one that is long", async () => {
    const socket = connect();
    await socket.opened;
    for (const text of [WAKE_MESSAGE, "sleep", "", WAKE_MESSAGE, "x".repeat(2_000)]) server.send(text);
    expect(await socket.ended).toBe(1006);
    expect(wakes).toBe(2);
  });

  test("has its pings answered", async () => {
    const socket = connect();
    await socket.opened;
    await socket.ping();
    await socket.ping();
  });

  test("says farewell when it is ended, and waits for no answer", async () => {
    const socket = connect();
    await socket.opened;
    socket.end();
    await socket.ended;
    await server.left();
    expect(server.closes).toEqual([1000]);
  });

  test("is over at once if it is ended before the server answered", async () => {
    server.upgrade = "hang";
    const socket = connect();
    await server.connected();
    socket.end();
    expect(await socket.opened).toMatchObject({ error: expect.any(Error) });
    expect(await socket.ended).toBe(1006);
    await server.left();
  });

  test("that is refused brings the whole answer", async () => {
    server.upgrade =
      "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 7\r\nContent-Length: 15\r\n\r\n" +
      '{"error":"busy"}'.slice(0, 15);
    const socket = connect();
    const opened = await socket.opened;
    if (opened === "open" || "error" in opened) throw new Error("not refused");
    expect(opened.status).toBe(503);
    expect(opened.headers.get("retry-after")).toBe("7");
    expect(opened.body).toBe('{"error":"busy"');
    expect(await socket.ended).toBe(1006);
  });

  test("with nobody there says why", async () => {
    await server.close();
    expect(await connect().opened).toMatchObject({ error: { code: "ECONNREFUSED" } });
  });
});

test("a wake socket goes through the proxy that the environment names", async () => {
  const secure = new SocketServer(true);
  url = await secure.listen();
  const tunnel = await openTunnel();
  const authorities = tls.getCACertificates("default");
  tls.setDefaultCACertificates([...authorities, CERTIFICATE]);
  const direct = http.setGlobalProxyFromEnv({ HTTPS_PROXY: tunnel.url });
  try {
    expect(await connect().opened).toBe("open");
    expect(tunnel.targets).toEqual([new URL(url).host]);
  } finally {
    for (const socket of sockets) socket.end();
    direct();
    tls.setDefaultCACertificates(authorities);
    await tunnel.close();
    await secure.close();
  }
});
