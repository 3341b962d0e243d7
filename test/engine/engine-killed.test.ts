import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { afterAll, expect, test, vi } from "vitest";
import { eventually, isAlive, openWorkshop, processesWith } from "./support/workshop.ts";

// Each test starts processes; on a busy machine that alone takes seconds.
vi.setConfig({ testTimeout: 90_000 });

const ENGINE = resolve(import.meta.dirname, "../../relay-cli/engine/index.ts");
const shop = openWorkshop();
afterAll(() => shop.close());

/** Another process with an engine in it, running one Graph; resolves when the Graph has said "ready". */
async function startElsewhere(graph: string) {
  const child = spawn(
    process.execPath,
    [
      "--input-type=module",
      "-e",
      `import { createEngine } from ${JSON.stringify(ENGINE)};
       const engine = createEngine({ settings: async () => ({ trusted: true, folders: [{ path: ${JSON.stringify(shop.folder)}, write: false }], approvals: { shell: "allow" } }) });
       await engine.run({ execution_id: crypto.randomUUID(), channel: "graph:local:x", args: {},
         graph: { slug: "g", path: ${JSON.stringify(graph)} },
         onEvent: (e) => { if (e.type === "log") console.log(e.line); } });`,
    ],
    { stdio: ["ignore", "pipe", "inherit"] },
  );
  let said = "";
  child.stdout.on("data", (text) => {
    said += text;
  });
  await eventually(() => said.includes("ready"), "the Graph is ready");
  return child;
}

test.each([
  ["waits on timers", "api.log('ready'); await new Promise((r) => setTimeout(r, 1e6));"],
  [
    "spins and never looks at its channel",
    "api.log('ready'); await new Promise((r) => setTimeout(r, 100)); for (;;);",
  ],
  [
    "sends with all its might",
    "api.log('ready'); process.on('uncaughtException', () => { for (;;) { try { api.log('again'); } catch {} } }); for (;;) { api.log('x'); await new Promise((r) => setImmediate(r)); }",
  ],
  [
    "has started others",
    `(await import('node:child_process')).spawn('sh', ['-c', 'trap "" TERM; sleep 998 & sleep 999 # MARKER'], { stdio: 'inherit' }); (await import('node:child_process')).spawn('sh', ['-c', 'sleep 997; : MARKER'], { detached: true, stdio: 'ignore' }).unref(); await new Promise((r) => setTimeout(r, 200)); api.log('ready'); await new Promise((r) => setTimeout(r, 1e6));`,
  ],
  [
    "has a shell command under way",
    "setTimeout(() => api.log('ready'), 500); await api.tool('shell', { command: 'sleep 997 & sleep 999 # MARKER' });",
  ],
])("when the engine is killed, a Graph that %s ends by itself, with all it started", async (name, body) => {
  const marker = `marker-${crypto.randomUUID()}`;
  const slug = `${marker}-graph`;
  const graph = shop.graph(slug, body.replaceAll("MARKER", marker));
  const child = await startElsewhere(graph);
  const hosts = childrenOf(child.pid ?? 0);
  expect(hosts.length).toBeGreaterThan(0);
  child.kill("SIGKILL");
  await once(child, "exit");
  await eventually(
    () => hosts.every((pid) => !isAlive(pid)),
    `${name}: the Graph's process and the guard are gone`,
  );
  await eventually(() => processesWith(marker).length === 0, `${name}: what it started is gone`);
});

test("when the engine's process ends of its own accord with a run under way, the run's group goes too", async () => {
  const graph = shop.graph(
    "left",
    "api.log('ready'); await new Promise((r) => setTimeout(r, 100)); for (;;);",
  );
  const child = await startElsewhere(graph);
  const hosts = childrenOf(child.pid ?? 0);
  child.kill("SIGTERM");
  await once(child, "exit");
  await eventually(() => hosts.every((pid) => !isAlive(pid)), "the Graph's process is gone");
});

function childrenOf(pid: number): number[] {
  const text = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim();
  return text === "" ? [] : text.split(" ").map(Number);
}
