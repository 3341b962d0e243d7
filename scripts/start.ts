import { systemClock, systemRandom } from "../src/protocol/ports.ts";
import type { RunOutput } from "../src/protocol/tools.ts";
import { prepareEndpoint, startEndpoint } from "./lib/local-endpoint.ts";
import { localOwner, newSignInLink } from "./lib/local-owner.ts";
import { LocalRelay } from "./lib/local-relay.ts";
import { requireFreePort, START_USAGE, StartProblem, startOptions } from "./lib/start-options.ts";

// `npm start`: the endpoint on this machine, a relay, a sample Graph, and the main job once: an agent asks
// for a run, the relay runs it, the agent gets the result.

const ROOT = new URL("..", import.meta.url).pathname;
const PORTS = { clock: systemClock, random: systemRandom };
const SAMPLE = "folder-report";

const say = (text: string) => console.error(text);
const step = (text: string) => say(`• ${text}`);

async function main(argv: readonly string[]): Promise<number> {
  if (argv.includes("--help") || argv.includes("-h")) {
    console.log(START_USAGE);
    return 0;
  }
  const options = startOptions(argv, process.env, ROOT);
  await requireFreePort(options.port);
  const place = { root: ROOT, state: options.state, port: options.port };

  step("Applying migrations to the local database");
  await prepareEndpoint(place);
  const owner = await localOwner(place, PORTS);

  step(`Starting the endpoint on port ${options.port}`);
  const endpoint = await startEndpoint(place);
  const relay = new LocalRelay({ root: ROOT, state: options.state, url: endpoint.url });
  const stop = async () => {
    await relay.stop();
    await endpoint.stop();
  };
  const stopped = stopRequested();
  try {
    await Promise.race([mainJob(), stopped.promise]);
    if (options.once || stopped.requested()) return 0;
    const link = await newSignInLink(place, owner.accountId, endpoint.url, PORTS);
    say(instructions(endpoint.url, link));
    const failure = await Promise.race([stopped.promise, relay.failed(), endpoint.failed()]);
    if (failure) say(failure);
    return failure ? 1 : 0;
  } finally {
    say("Stopping …");
    await stop();
    stopped.end();
  }

  function signedIn() {
    return owner.browser(endpoint.url);
  }

  async function mainJob(): Promise<void> {
    step("Pairing this machine with the account");
    await relay.ensurePaired(signedIn);
    step(`Sharing the sample Graph ${SAMPLE}, with ${options.folder} to read`);
    await relay.share(SAMPLE, options.folder);
    step("Starting the relay");
    relay.start();
    step("Asking for a run, as an agent does (a wake socket tells the relay of it at once)");
    const result = await relay.call(SAMPLE, { folder: options.folder, ignore: [".graph-relay"] }, signedIn);
    console.log(`\n${report(result)}`);
  }
}

/** The tool's result as a person reads it: the ticket, then the sample Graph's summary. */
function report(run: RunOutput): string {
  const summary = (run.result as { summary?: string } | undefined)?.summary;
  const head = `get_graph_run answered: ${run.status}, command ${run.command_id}, execution ${run.execution_id}`;
  return `${head}\n\n${summary ?? JSON.stringify(run.result, null, 2)}\n`;
}

/** Resolves at the first SIGINT or SIGTERM; later ones do nothing, as everything is ending already. */
function stopRequested() {
  let requested = false;
  let resolve: () => void = () => {};
  const promise = new Promise<undefined>((done) => {
    resolve = () => done(undefined);
  });
  const onSignal = () => {
    requested = true;
    resolve();
  };
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, onSignal);
  return {
    promise,
    requested: () => requested,
    end: () => {
      for (const signal of ["SIGINT", "SIGTERM"] as const) process.off(signal, onSignal);
    },
  };
}

function instructions(url: string, link: string): string {
  return `
The endpoint is up.  MCP address: ${url}/mcp

  Connect Claude Code   claude mcp add --transport http graph-relay ${url}/mcp   (then /mcp to sign in)
  Other MCP clients     {"mcpServers": {"graph-relay": {"url": "${url}/mcp"}}}
  Sign in as its owner  ${link}
                        (works once, for 15 minutes; a new one comes with each start)
  Add your own Graph    npm run relay -- graph new my-graph
                        npm run relay -- share my-graph --project "My laptop"
  See what is going on  npm run relay -- status
  Stop                  Ctrl-C
`;
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  console.error(
    error instanceof StartProblem ? error.message : `npm start failed: ${(error as Error).message}`,
  );
  process.exitCode = error instanceof StartProblem ? 2 : 1;
}
