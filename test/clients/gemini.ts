import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expectTools, type Stage, TOOLS } from "./stage.ts";

/** Its documented settings against traffic that is not ours; a folder of ours is trusted without asking. */
const SETTINGS = {
  privacy: { usageStatisticsEnabled: false },
  telemetry: { enabled: false },
  general: { enableAutoUpdate: false, enableAutoUpdateNotification: false },
  security: { auth: { selectedType: "gemini-api-key" }, folderTrust: { enabled: false } },
};
/** The model's service is a port that nobody listens on. */
const ENV = { GEMINI_API_KEY: "none", GOOGLE_GEMINI_BASE_URL: "http://127.0.0.1:9" };

/** Gemini CLI: its command line adds the server; signing in and the list of tools are commands of its session. */
export async function gemini(stage: Stage): Promise<void> {
  mkdirSync(join(stage.home, ".gemini"));
  writeFileSync(join(stage.home, ".gemini", "settings.json"), JSON.stringify(SETTINGS));
  await stage.run(
    "gemini",
    ["mcp", "add", "--scope", "user", "--transport", "http", "graph-relay", stage.url],
    ENV,
  );
  stage.mark("server added");
  const session = stage.terminal("gemini", ["--screen-reader"], ENV);
  await session.shows(/Type your message/);
  await session.enter("/mcp auth graph-relay");
  await session.shows(/Do you want to continue/);
  await session.enter("");
  await stage.allow(() => session.shown);
  // It takes no keys before it has the tools.
  await session.shows(/authenticated and reloaded tools/);
  await session.enter("/mcp list");
  await session.shows(new RegExp(TOOLS[3] ?? ""));
  stage.mark("connected");
  expectTools(TOOLS.filter((tool) => session.shown.includes(tool)));
  stage.mark("four tools listed");
}
