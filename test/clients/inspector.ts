import { randomUUID } from "node:crypto";
import { expectTools, SESSION, type Stage } from "./stage.ts";

/** Its tokens are kept in its home: a keychain is not at hand everywhere. */
const ENV = { MCP_AUTO_OPEN_ENABLED: "true", MCP_INSPECTOR_SECRET_STORE: "file" };

/** The MCP Inspector's command line: each call is a connection of its own, with the tokens of the first. */
export async function inspector(stage: Stage): Promise<void> {
  let told = "";
  const call = async (words: readonly string[]): Promise<Record<string, unknown>> => {
    const said = await stage.run(
      "mcp-inspector",
      ["--cli", stage.url, "--format", "json", "-q", ...words],
      ENV,
      (text) => {
        told += text;
      },
    );
    return JSON.parse(said.slice(said.indexOf("{")));
  };
  const listing = call(["--method", "tools/list"]);
  listing.catch(() => {});
  stage.mark("server added");
  await Promise.race([stage.allow(() => told), listing]);
  const listed = (await listing) as { tools?: { name: string }[]; result?: { tools: { name: string }[] } };
  stage.mark("connected");
  expectTools((listed.tools ?? listed.result?.tools ?? []).map(({ name }) => name));
  stage.mark("four tools listed");
  const tool = async (name: string, input: object) => {
    const answer = await call([
      ...["--stored-auth-only", "--method", "tools/call", "--tool-name", name],
      ...["--tool-args-json", JSON.stringify(input)],
    ]);
    const result = (answer.result ?? answer) as { structuredContent: Record<string, unknown> };
    return result.structuredContent;
  };
  const ticket = await tool("run_graph_session", {
    graph_session_id: SESSION.graph_session_id,
    idempotency_key: randomUUID(),
  });
  const command_id = String(ticket.command_id);
  await stage.finishRun(command_id);
  const { status } = await tool("get_graph_run", { command_id, wait_seconds: 5 });
  if (status !== "completed") throw new Error(`The run ended as ${status}`);
  stage.mark("a run finished");
}
