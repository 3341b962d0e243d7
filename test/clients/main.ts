import { resolve } from "node:path";
import { ownerLink } from "../../scripts/lib/owner-link.ts";
import { run } from "../../scripts/lib/processes.ts";
import { systemClock, systemRandom } from "../../src/protocol/ports.ts";
import { findBrowser, launchBrowser, newPerson, openLink } from "../support/browser.ts";
import { startTestEndpoint } from "../support/endpoint.ts";
import { ScriptedDevice } from "../support/scripted-device.ts";
import { claudeCode } from "./claude-code.ts";
import { closeDoor } from "./closed-door.ts";
import { codex } from "./codex.ts";
import { documentsAsPublished } from "./documents.ts";
import { gemini } from "./gemini.ts";
import { inspector } from "./inspector.ts";
import { mcpRemote } from "./mcp-remote.ts";
import { MILESTONES, type Milestone, SESSION, Stage, type Theatre } from "./stage.ts";

// `npm run test:clients`: other people's clients against a real endpoint on this machine, each from "add
// server" as far as it goes without its model's service. Nothing leaves the machine but for the npm registry.

interface RealClient {
  readonly name: string;
  readonly goes: (stage: Stage) => Promise<void>;
  /** How far it is known to go. Less is a failure. */
  readonly upTo: Milestone;
  /** What was not as it is for real. */
  readonly note?: string;
}

const DOCUMENT =
  "It named its document at its maker's host, which tests do not ask: the endpoint had a copy of ours.";

const CLIENTS: readonly RealClient[] = [
  { name: "mcp-remote", goes: mcpRemote, upTo: "a run finished" },
  { name: "MCP Inspector (CLI)", goes: inspector, upTo: "a run finished" },
  { name: "Codex CLI", goes: codex, upTo: "four tools listed", note: DOCUMENT },
  { name: "Gemini CLI", goes: gemini, upTo: "four tools listed" },
  { name: "Claude Code", goes: claudeCode, upTo: "four tools listed", note: DOCUMENT },
];

async function openTheatre(): Promise<{ theatre: Theatre; close(): Promise<void> }> {
  const found = await findBrowser();
  if ("missing" in found) throw new Error(found.missing);
  let code = "";
  const endpoint = await startTestEndpoint(async (accountId) => {
    const link = await ownerLink({ accountId }, { clock: systemClock, random: systemRandom });
    code = link.code;
    return [...link.sql, ...documentsAsPublished(systemClock.now())];
  });
  const browser = await launchBrowser(found.program);
  const { page } = await newPerson(browser);
  await openLink(page, endpoint.url, code);
  const device = await ScriptedDevice.pair(endpoint);
  await device.sync([SESSION]);
  const door = await closeDoor();
  return {
    theatre: { endpoint, page, device, door },
    async close() {
      door.close();
      await browser.close();
      await endpoint.stop();
    },
  };
}

/** One client's turn. The answer says whether it went as far as it is known to. */
async function turn(client: RealClient, theatre: Theatre): Promise<boolean> {
  const stage = new Stage(theatre);
  let wrong: string | undefined;
  try {
    await client.goes(stage);
  } catch (error) {
    wrong = error instanceof Error ? error.message : String(error);
  }
  const far = stage.reached.at(-1);
  const enough = far !== undefined && MILESTONES.indexOf(far) >= MILESTONES.indexOf(client.upTo);
  console.log(`\n${client.name}: ${enough ? "" : "FELL SHORT. "}reached "${far ?? "nothing"}"`);
  for (const milestone of MILESTONES)
    console.log(`  ${stage.reached.includes(milestone) ? "✓" : "–"} ${milestone}`);
  if (client.note !== undefined) console.log(`  ${client.note}`);
  const refused = stage.refusedHosts();
  if (refused.length > 0) console.log(`  It asked for these outside, and was refused: ${refused.join(", ")}`);
  if (wrong !== undefined) console.log(`  It stopped: ${wrong.trim().replaceAll("\n", "\n    ")}`);
  stage.close();
  return enough;
}

const folder = resolve(import.meta.dirname);
console.log("Installing the clients (the first time takes a minute or a few) …");
// Not `npm ci`: the lock misses an optional package for Windows that its registry does not have.
await run("npm", ["install", "--no-save", "--no-audit", "--no-fund", "--no-workspaces", "--loglevel=error"], {
  cwd: folder,
});

const only = process.argv.slice(2);
const chosen = CLIENTS.filter(
  ({ name }) => only.length === 0 || only.some((word) => name.toLowerCase().includes(word)),
);
const { theatre, close } = await openTheatre();
let failed = 0;
try {
  for (const client of chosen) if (!(await turn(client, theatre))) failed++;
} finally {
  await close();
}
console.log(`\n${chosen.length - failed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
