import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { ControlRequest } from "../../src/protocol/relay-api.ts";
import { Cli } from "../relay/support/cli.ts";
import { listen } from "../relay/support/http-server.ts";
import { FakeServer, PROJECT } from "../relay/support/server.ts";
import { GRAPH } from "../relay/support/world.ts";
import { openTerminal, type PseudoTerminal } from "./support/pseudo-terminal.ts";
import { eventually } from "./support/workshop.ts";

// Each test starts processes; on a busy machine that alone takes seconds.
vi.setConfig({ testTimeout: 90_000 });

// A run from outside that needs its owner, who sits at the terminal of `start`, or at another.

let cli: Cli;
let server: FakeServer;
let http: Awaited<ReturnType<typeof listen>>;
let terminal: PseudoTerminal | undefined;
beforeEach(async () => {
  cli = new Cli();
  server = new FakeServer();
  http = await listen(server);
  await cli.pair(http.url);
  mkdirSync(join(cli.folder, "data"));
  const path = join(cli.folder, "asks.mjs");
  writeFileSync(
    path,
    "export default async ({ tool }) => (await tool('shell', { command: 'echo yes | tee out.txt' })).stdout;",
  );
  cli.store((store) => {
    store.graphs.add({ ...GRAPH, path });
    store.settings.grantFolder(GRAPH.graph_session_id, join(cli.folder, "data"), false);
    store.projects.share(PROJECT, GRAPH.graph_session_id, 0);
  });
});
afterEach(async () => {
  terminal?.kill();
  await terminal?.ended;
  terminal = undefined;
  await cli.remove();
  await http.close();
});

/** The progress that the server was told, in order, without repeats. */
const told = (): string[] => {
  const states = server.seen.flatMap((seen) =>
    seen.call === "control" ? ((seen.body as ControlRequest).progress ?? []) : [],
  );
  return states.map((p) => `${p.state} ${p.message ?? ""}`.trim()).filter((p, i, all) => p !== all[i - 1]);
};

test("start asks in its own terminal; the agent sees awaiting_approval and what for, and then the result", async () => {
  const command = server.queue(GRAPH);
  terminal = openTerminal(cli.folder, ["start"]);
  await terminal.shows(`  | in ${join(cli.folder, "data")}: echo yes | tee out.txt`);
  await terminal.shows("[o/r/a/n]: ");
  await eventually(() => told().length > 0, "the server is told");
  expect(told()).toEqual([`awaiting_approval shell: in ${join(cli.folder, "data")}: echo yes | tee out.txt`]);
  expect(command.status).toBe("running");
  terminal.type("o\r");
  await eventually(() => command.status === "completed", "the run is completed");
  expect(command.completion).toMatchObject({ status: "completed", result: "yes\n" });
  expect(readFileSync(join(cli.folder, "data", "out.txt"), "utf8")).toBe("yes\n");
  terminal.type("\u0003");
  expect(await terminal.ended).toBe(0);
});

test("start without a terminal: answered from another one", async () => {
  const command = server.queue(GRAPH);
  const relay = cli.spawn(["start"]);
  await relay.says("Answer with `graph-relay approvals answer");
  const second = openTerminal(cli.folder, ["approvals", "answer"]);
  terminal = second;
  await second.shows("[o/r/a/n]: ");
  second.type("n\r");
  expect(await second.ended).toBe(0);
  await eventually(() => command.status === "failed", "the run is over");
  expect(command.completion?.error).toMatch(/shell was not approved \(owner, refused\)/);
  relay.child.kill("SIGTERM");
  expect((await relay.ended).code).toBe(0);
});
