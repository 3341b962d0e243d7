import { type ChildProcess, spawn } from "node:child_process";
import {
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { endChild, ended, run } from "./processes.ts";
import { newSigningKeys } from "./signing-keys.ts";

/** Where the endpoint of this machine keeps what must survive a restart. */
export interface EndpointPlace {
  /** The repository, where wrangler.toml is. */
  readonly root: string;
  /** A folder of its own: databases, keys, log. */
  readonly state: string;
  readonly port: number;
}

const QUIET = {
  WRANGLER_SEND_METRICS: "false",
  WRANGLER_SEND_ERROR_REPORTS: "false",
  WRANGLER_HIDE_BANNER: "true",
  CLOUDFLARE_CF_FETCH_ENABLED: "false",
  // A local browser of the databases that asks for no sign-in.
  X_LOCAL_EXPLORER: "false",
  CI: "true",
};

const environment = (): NodeJS.ProcessEnv => ({ ...process.env, ...QUIET });
const databases = (place: EndpointPlace) => join(place.state, "databases");
const secrets = (place: EndpointPlace) => join(place.state, "endpoint.env");
const logFile = (place: EndpointPlace) => join(place.state, "endpoint.log");

/** Makes the state folder and its signing keys, unless they are there, and applies the D1 migrations. */
export async function prepareEndpoint(place: EndpointPlace): Promise<void> {
  mkdirSync(place.state, { recursive: true, mode: 0o700 });
  if (!existsSync(secrets(place))) {
    writeFileSync(secrets(place), `SIGNING_KEYS='${await newSigningKeys()}'\n`, { mode: 0o600 });
  }
  chmodSync(secrets(place), 0o600);
  await run("wrangler", ["d1", "migrations", "apply", "DB", "--local", "--persist-to", databases(place)], {
    cwd: place.root,
    env: environment(),
  });
}

/** Runs statements on the endpoint's D1, whether it is running or not. Every one of them holds, or none. */
export async function executeSql(place: EndpointPlace, statements: readonly string[]): Promise<void> {
  // Through a file: what is in the statements does not show in the process list.
  const file = join(place.state, `statements-${process.pid}.sql`);
  writeFileSync(file, `${statements.join(";\n")};\n`, { mode: 0o600 });
  try {
    await run(
      "wrangler",
      ["d1", "execute", "DB", "--local", "--persist-to", databases(place), "--yes", "--file", file],
      {
        cwd: place.root,
        env: environment(),
      },
    );
  } finally {
    rmSync(file);
  }
}

/** A running endpoint. */
export interface LocalEndpoint {
  /** Its origin, such as `http://localhost:8787`. */
  readonly url: string;
  readonly process: ChildProcess;
  /** Resolves with what to tell the person when it ends by itself. */
  failed(): Promise<string>;
  stop(): Promise<void>;
}

/**
 * Starts `wrangler dev` and waits until it answers. The log is in the state folder. With `ownGroup` it
 * leads a process group, so that all of it can be killed at once.
 */
export async function startEndpoint(
  place: EndpointPlace,
  { ownGroup = false }: { ownGroup?: boolean } = {},
): Promise<LocalEndpoint> {
  const log = openSync(logFile(place), "w", 0o600);
  const child = spawn(
    "wrangler",
    [
      "dev",
      "--port",
      String(place.port),
      "--persist-to",
      databases(place),
      "--env-file",
      secrets(place),
      "--show-interactive-dev-session=false",
    ],
    { cwd: place.root, env: environment(), stdio: ["ignore", log, log], detached: ownGroup },
  );
  closeSync(log);
  const url = `http://localhost:${place.port}`;
  const stop = () => endChild(child, "SIGTERM", 10_000);
  try {
    await answers(`${url}/health`, child);
  } catch (error) {
    await stop();
    const tail = readFileSync(logFile(place), "utf8").trim().split("\n").slice(-15).join("\n");
    throw new Error(`The endpoint did not start (${(error as Error).message}). Its log ends:\n${tail}`);
  }
  const failed = async () => {
    await ended(child);
    return `The endpoint has ended. Its log: ${logFile(place)}`;
  };
  return { url, process: child, failed, stop };
}

/** Resolves when the address answers 200; rejects when the child has ended, or after two minutes. */
async function answers(url: string, child: ChildProcess): Promise<void> {
  for (let tries = 0; tries < 600; tries++) {
    if (child.exitCode !== null) throw new Error(`it ended with exit code ${child.exitCode}`);
    const status = await fetch(url, { signal: AbortSignal.timeout(5_000) }).then(
      (response) => response.status,
      () => 0,
    );
    if (status === 200) return;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  throw new Error("it did not answer within two minutes");
}
