import { spawn } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expectTools, type Stage, within } from "./stage.ts";

/** Its documented settings against traffic that is not ours. */
const CONFIG = `
check_for_update_on_startup = false
[analytics]
enabled = false
[otel]
exporter = "none"
`;

interface ServerStatus {
  name: string;
  tools: Record<string, unknown>;
}

/** Codex CLI: adding the server signs in at once; its app server tells the tools that a session would have. */
export async function codex(stage: Stage): Promise<void> {
  mkdirSync(join(stage.home, ".codex"));
  writeFileSync(join(stage.home, ".codex", "config.toml"), CONFIG);
  let told = "";
  const adding = stage.run("codex", ["mcp", "add", "graph-relay", "--url", stage.url], {}, (text) => {
    told += text;
  });
  adding.catch(() => {});
  await Promise.race([stage.allow(() => told), adding]);
  stage.mark("server added");
  await adding;
  const statuses = await serverStatuses(stage);
  const ours = statuses.find(({ name }) => name === "graph-relay");
  if (!ours) throw new Error(`Not among its servers: ${JSON.stringify(statuses)}`);
  stage.mark("connected");
  expectTools(Object.keys(ours.tools));
  stage.mark("four tools listed");
}

/** Asks the app server (JSON-RPC, a line a message) for the state of each MCP server. */
async function serverStatuses(stage: Stage): Promise<ServerStatus[]> {
  const server = spawn(stage.program("codex"), ["app-server"], {
    cwd: stage.work,
    env: stage.env(),
    stdio: ["pipe", "pipe", "ignore"],
  });
  try {
    const send = (message: object) => server.stdin.write(`${JSON.stringify(message)}\n`);
    const answers = createInterface(server.stdout);
    const answer = (id: number) =>
      within(
        `codex answers request ${id}`,
        new Promise<{ data: ServerStatus[] }>((done, failed) => {
          answers.on("line", (line) => {
            const message = JSON.parse(line);
            if (message.id !== id) return;
            if (message.error) failed(new Error(JSON.stringify(message.error)));
            else done(message.result);
          });
        }),
      );
    send({ id: 1, method: "initialize", params: { clientInfo: { name: "graph-relay-test", version: "1" } } });
    await answer(1);
    send({ method: "initialized" });
    send({ id: 2, method: "mcpServerStatus/list", params: {} });
    return (await answer(2)).data;
  } finally {
    server.kill();
  }
}
