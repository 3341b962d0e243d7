import { randomUUID } from "node:crypto";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { expectTools, SESSION, type Stage, within } from "./stage.ts";

/** `mcp-remote`: the bridge that gives programs of standard input and output alone a server like this one. */
export async function mcpRemote(stage: Stage): Promise<void> {
  const client = new Client({ name: "host-of-mcp-remote", version: "1.0.0" });
  const transport = new StdioClientTransport({
    command: stage.program("mcp-remote"),
    args: [stage.url, "--auth-timeout", "60"],
    env: stage.env(),
    cwd: stage.work,
    stderr: "pipe",
  });
  let said = "";
  transport.stderr?.on("data", (chunk) => {
    said += chunk;
  });
  const connected = within("the bridge connects", client.connect(transport));
  stage.mark("server added");
  await Promise.all([stage.allow(() => said), connected]);
  stage.mark("connected");
  expectTools((await client.listTools()).tools.map(({ name }) => name));
  stage.mark("four tools listed");
  const call = async (name: string, input: Record<string, unknown>) =>
    (await client.callTool({ name, arguments: input })).structuredContent as Record<string, unknown>;
  const ticket = await call("run_graph_session", {
    graph_session_id: SESSION.graph_session_id,
    idempotency_key: randomUUID(),
  });
  const command_id = String(ticket.command_id);
  const waiting = call("get_graph_run", { command_id, wait_seconds: 30 });
  await stage.finishRun(command_id);
  const { status } = await waiting;
  if (status !== "completed") throw new Error(`The run ended as ${status}`);
  stage.mark("a run finished");
  await client.close();
}
