import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { EXIT_CODES } from "../../relay-cli/exit-codes.ts";
import { createRelay } from "../../relay-cli/relay/loop.ts";
import { systemClock, systemTransport } from "../../relay-cli/relay/system.ts";
import { Cli } from "./support/cli.ts";
import { settle } from "./support/clock.ts";
import { listen } from "./support/http-server.ts";
import { FakeServer, PROJECT } from "./support/server.ts";
import { GRAPH, World } from "./support/world.ts";

// The relay as a process of its own, against a server on a real port.

// Each test starts processes; on a busy machine that alone takes seconds.
vi.setConfig({ testTimeout: 90_000 });

let cli: Cli;
let server: FakeServer;
let http: Awaited<ReturnType<typeof listen>>;

beforeEach(async () => {
  cli = new Cli();
  server = new FakeServer();
  http = await listen(server);
  await cli.pair(http.url);
});
afterEach(async () => {
  await cli.remove();
  await http.close();
});

/** A saved and shared Graph with this body. */
function share(body: string): void {
  const path = join(cli.folder, "report.mjs");
  writeFileSync(path, `export default async ({ signal, progress }) => { ${body} };`);
  cli.store((store) => {
    store.graphs.add({ ...GRAPH, path });
    store.projects.share(PROJECT, GRAPH.graph_session_id, 0);
  });
}

const UNTIL_STOPPED =
  "await new Promise((done) => signal.addEventListener('abort', done)); return 'stopped';";
const running = () => [...server.commands.values()].some((command) => command.status === "running");
async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await delay(20);
}

describe("the relay as a process", () => {
  test("runs what is asked for, and the first signal ends it with 0", async () => {
    share("return { answer: 42 };");
    const command = server.queue(GRAPH);
    const relay = cli.spawn(["start"]);
    await until(() => command.status === "completed");
    expect(command.completion?.result).toEqual({ answer: 42 });
    relay.child.kill("SIGTERM");
    expect((await relay.ended).code).toBe(0);
    expect(cli.store((store) => store.history.list(1)[0]?.status)).toBe("completed");
  });

  test("asks for a wake socket, says that there is none, and goes on; with --poll-only it never asks", async () => {
    share("return 1;");
    for (const words of [["start"], ["start", "--poll-only"]]) {
      const asked = server.calls("wake").length;
      const command = server.queue(GRAPH);
      const relay = cli.spawn(words);
      await until(() => command.status === "completed");
      const polls = words.length === 2;
      if (!polls) await relay.says("The wake socket does not get through.");
      relay.child.kill("SIGTERM");
      const { code, stderr } = await relay.ended;
      expect([code, server.calls("wake").length - asked]).toEqual([0, polls ? 0 : 1]);
      expect(stderr.includes("wake socket")).toBe(!polls);
    }
  });

  test("lets a Graph finish after the first signal, sends its result, and exits 0", async () => {
    share("await new Promise((done) => setTimeout(done, 1500)); return 'finished';");
    const command = server.queue(GRAPH);
    const relay = cli.spawn(["start"]);
    await until(running);
    relay.child.kill("SIGINT");
    const { code, stderr } = await relay.ended;
    expect(code).toBe(0);
    expect(command.completion).toMatchObject({ status: "completed", result: "finished" });
    expect(stderr).toContain("Once more cancels it");
  });

  test("cancels at the second signal, whichever, reports it, and exits 130", async () => {
    share(UNTIL_STOPPED);
    const command = server.queue(GRAPH);
    const relay = cli.spawn(["start"]);
    await until(running);
    relay.child.kill("SIGTERM");
    await relay.says("Once more cancels it");
    relay.child.kill("SIGINT");
    expect((await relay.ended).code).toBe(EXIT_CODES.interrupted[0]);
    expect(command.completion?.status).toBe("cancelled");
  });

  test("leaves at once at the third signal, and what it left is reported by the next start", async () => {
    share("process.on('SIGTERM', () => {}); for (;;) await new Promise((done) => setTimeout(done, 1000));");
    const command = server.queue(GRAPH);
    const relay = cli.spawn(["start"]);
    await until(running);
    relay.child.kill("SIGINT");
    await relay.says("Once more cancels it");
    relay.child.kill("SIGINT");
    await relay.says("Once more leaves at once");
    relay.child.kill("SIGINT");
    expect((await relay.ended).code).toBe(EXIT_CODES.interrupted[0]);
    const next = cli.spawn(["start"]);
    await until(() => command.status !== "running");
    expect(command.status).toBe("failed");
    next.child.kill("SIGTERM");
    await next.ended;
  });

  test("killed with a Graph running, it is not run again after the next start", async () => {
    share(UNTIL_STOPPED);
    const command = server.queue(GRAPH);
    const first = cli.spawn(["start"]);
    await until(running);
    await first.says("Running report");
    first.child.kill("SIGKILL");
    await first.ended;
    const second = cli.spawn(["start"]);
    await until(() => command.status === "failed");
    expect(server.calls("start")).toHaveLength(1);
    second.child.kill("SIGTERM");
    expect((await second.ended).code).toBe(0);
  });

  test("stopped and continued by the system, it makes one pass at once, and not one for each it missed", async () => {
    share("return 1;");
    const relay = cli.spawn(["start"]);
    await relay.says("now sees 1 Graph(s)");
    await delay(500);
    const before = server.calls("sync").length;
    relay.child.kill("SIGSTOP");
    await delay(7_500);
    relay.child.kill("SIGCONT");
    await until(() => server.calls("sync").length > before);
    await delay(2_000);
    expect(server.calls("sync").length).toBe(before + 1);
    relay.child.kill("SIGTERM");
    expect((await relay.ended).code).toBe(0);
  });

  test("with nobody to read its lines any more, it goes on", async () => {
    share("await new Promise((done) => setTimeout(done, 1000)); return 1;");
    const command = server.queue(GRAPH);
    const relay = cli.spawn(["start"]);
    await until(running);
    relay.child.stderr.destroy();
    relay.child.stdout.destroy();
    await until(() => command.status === "completed");
    const gone = new Promise((done) => relay.child.on("exit", done));
    relay.child.kill("SIGTERM");
    expect(await gone).toBe(0);
  });

  test("says in one line that it is too old, and exits with a code of its own", async () => {
    server.minimumVersion = "99.0.0";
    share("return 1;");
    const { code, stderr } = await cli.run(["start"]);
    expect(code).toBe(EXIT_CODES.too_old[0]);
    expect(stderr.split("\n").filter((line) => line.includes("too old"))).toHaveLength(1);
  });

  test("says in one line that the device was removed, and exits with a code of its own", async () => {
    server.fault = ({ call }) => (call === "token" ? { error: "device_removed" } : undefined);
    share("return 1;");
    const { code, stderr } = await cli.run(["start"]);
    expect(code).toBe(EXIT_CODES.device_removed[0]);
    expect(stderr.split("\n").filter((line) => line.includes("was removed"))).toHaveLength(1);
  });

  test("shows no secret in its arguments or its lines", async () => {
    share("return 1;");
    const command = server.queue(GRAPH);
    const relay = cli.spawn(["start"]);
    await until(() => command.status === "completed");
    relay.child.kill("SIGTERM");
    const { stdout, stderr } = await relay.ended;
    const key = cli.store((store) => JSON.parse(store.device.get()?.private_jwk ?? "{}") as { d: string });
    for (const secret of [key.d, "token-1", ...server.assertions])
      expect(`${stdout}${stderr}`).not.toContain(secret);
    expect(relay.child.spawnargs.join(" ")).not.toContain(key.d);
  });
});

test("2,000 failing passes over real connections leave no open file behind", async () => {
  const world = new World();
  const faults = ["cut", "html", { status: 502, body: "<html>" }, { error: "unavailable" }] as const;
  let n = 0;
  server.fault = () => faults[n++ % faults.length];
  let skipped = 0;
  const ports = world.ports({
    transport: systemTransport,
    clock: {
      wall: () => Date.now() + Math.round(skipped),
      monotonic: () => performance.now() + skipped,
      // Deadlines of requests are real; pauses between passes go by at once.
      sleep: (ms, signal) => {
        if (ms >= 15_000) return systemClock.sleep(ms, signal);
        skipped += ms;
        return Promise.resolve();
      },
    },
  });
  const relay = createRelay(ports, { serverUrl: http.url, clientVersion: "0.1.0", concurrency: 1 });
  const end = relay.run();
  const open = () => readdirSync("/dev/fd").length;
  await until(() => server.seen.length > 100);
  const before = open();
  await until(() => server.seen.length > 2_100);
  expect(open() - before).toBeLessThan(10);
  relay.drain();
  await end;
  await settle();
}, 60_000);
