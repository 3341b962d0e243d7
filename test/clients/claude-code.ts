import { expectTools, type Stage } from "./stage.ts";

/** Its documented switches against traffic that is not ours; the model's service is a port that nobody listens on. */
const ENV = {
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
  DISABLE_TELEMETRY: "1",
  DISABLE_ERROR_REPORTING: "1",
  DISABLE_AUTOUPDATER: "1",
  ANTHROPIC_API_KEY: "none",
  ANTHROPIC_BASE_URL: "http://127.0.0.1:9",
};

/** Claude Code: its own command line adds the server and signs in; the tools are those its session starts with. */
export async function claudeCode(stage: Stage): Promise<void> {
  await stage.run("claude", ["mcp", "add", "--transport", "http", "graph-relay", stage.url], ENV);
  stage.mark("server added");
  const login = stage.terminal("claude", ["mcp", "login", "graph-relay"], ENV);
  await stage.allow();
  await login.ended;
  const listed = await stage.run("claude", ["mcp", "list"], ENV);
  if (!/graph-relay: .*Connected/.test(listed)) throw new Error(`Not connected: ${listed}`);
  stage.mark("connected");
  // The session tells its tools before it asks the model, which is not there.
  const said = await stage
    .run("claude", ["-p", "hello", "--output-format", "stream-json", "--verbose"], {
      ...ENV,
      CLAUDE_CODE_MAX_RETRIES: "0",
    })
    .catch((error: Error & { output?: string }) => error.output ?? error.message);
  const tools = /"tools":(\[[^\]]*\])/.exec(said)?.[1];
  expectTools(tools === undefined ? [] : JSON.parse(tools));
  stage.mark("four tools listed");
}
