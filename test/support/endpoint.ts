import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, join, resolve } from "node:path";
import {
  type EndpointPlace,
  executeSql,
  type LocalEndpoint,
  prepareEndpoint,
  startEndpoint,
} from "../../scripts/lib/local-endpoint.ts";
import { OwnerBrowser } from "../../scripts/lib/owner-browser.ts";
import { ownerLink } from "../../scripts/lib/owner-link.ts";
import { ended } from "../../scripts/lib/processes.ts";
import { systemClock, systemRandom } from "../../src/protocol/ports.ts";

const ROOT = resolve(import.meta.dirname, "../..");

/** A real endpoint (workerd, as `npm start` starts it) on a free port, over a temporary folder that outlives its restarts. */
export interface TestEndpoint {
  /** Such as `http://localhost:41234`. The same after a restart. */
  readonly url: string;
  /** What it holds on disk: databases, keys, log. */
  readonly state: string;
  /** An owner with one project, signed in. */
  readonly owner: OwnerBrowser;
  readonly accountId: string;
  /** Runs SQL on the endpoint's D1. Best while it is stopped. */
  sql(...statements: string[]): Promise<void>;
  /** `kill -9` of everything it consists of. */
  kill9(): Promise<void>;
  /** Starts it again after `kill9`, or ends and starts it. */
  restart(): Promise<void>;
  /** Ends it and deletes its folder. */
  stop(): Promise<void>;
}

/**
 * Starts an endpoint with an owner who is signed in. Takes five to ten seconds; share one in a test file.
 * `more`: SQL to begin with, for the owner's account; each later call of `sql` takes seconds.
 */
export async function startTestEndpoint(
  more: (accountId: string) => Promise<readonly string[]> = async () => [],
): Promise<TestEndpoint> {
  // wrangler is found when a test is started without npm, too.
  const bins = ["node_modules/.bin", "node_modules/node/bin"].map((path) => join(ROOT, path));
  process.env.PATH = [...bins, process.env.PATH].join(delimiter);
  const state = mkdtempSync(join(tmpdir(), "graph-relay-endpoint-"));
  const place: EndpointPlace = { root: ROOT, state, port: await freePort() };
  await prepareEndpoint(place);
  const link = await ownerLink({ name: "Owner" }, { clock: systemClock, random: systemRandom });
  await executeSql(place, [...link.sql, ...(await more(link.account_id))]);
  let running: LocalEndpoint | undefined = await startEndpoint(place);
  const { url } = running;
  const owner = new OwnerBrowser(url);
  await owner.signIn(link.code);

  const kill9 = async () => {
    if (running?.process.pid === undefined) return;
    process.kill(-running.process.pid, "SIGKILL");
    await ended(running.process);
    running = undefined;
  };
  return {
    url,
    state,
    owner,
    accountId: link.account_id,
    sql: (...statements) => executeSql(place, statements),
    kill9,
    async restart() {
      await running?.stop();
      running = await startEndpoint(place);
    },
    async stop() {
      await running?.stop();
      await kill9().catch(() => {});
      rmSync(state, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

/** A port of the loopback interface that nobody listens on. */
export function freePort(): Promise<number> {
  return new Promise((resolvePort, reject) => {
    const server = createServer();
    server.on("error", reject).listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() =>
        typeof address === "object" && address ? resolvePort(address.port) : reject(new Error("no port")),
      );
    });
  });
}
