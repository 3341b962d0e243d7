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
  // A database of traces that nobody reads.
  X_LOCAL_OBSERVABILITY: "false",
  CI: "true",
};

const environment = (): NodeJS.ProcessEnv => ({ ...process.env, ...QUIET });
const databases = (place: EndpointPlace) => join(place.state, "databases");
const keyFile = (place: EndpointPlace) => join(place.state, "signing-keys.json");
/** What lives no longer than the endpoint; what a killed one leaves is deleted at the next start. */
const temporary = (place: EndpointPlace) => join(place.state, "temporary");
const logFile = (place: EndpointPlace) => join(place.state, "endpoint.log");

/** Makes the state folder and its signing keys, unless they are there, and applies the D1 migrations. */
export async function prepareEndpoint(place: EndpointPlace): Promise<void> {
  mkdirSync(place.state, { recursive: true, mode: 0o700 });
  if (!existsSync(keyFile(place)))
    writeFileSync(keyFile(place), `${await newSigningKeys()}\n`, { mode: 0o600, flush: true });
  chmodSync(keyFile(place), 0o600);
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
 * Starts it as a process that leads a group of its own, so that all of it can be killed at once, and waits
 * until it answers. The log is in the state folder. `inspectorPort`: where a debugger may join; none without.
 */
export async function startEndpoint(
  place: EndpointPlace,
  { inspectorPort }: { inspectorPort?: number } = {},
): Promise<LocalEndpoint> {
  rmSync(temporary(place), { recursive: true, force: true });
  mkdirSync(temporary(place), { mode: 0o700 });
  const [TMPDIR, TEMP, TMP] = Array(3).fill(temporary(place));
  const log = openSync(logFile(place), "w", 0o600);
  const serve = join(place.root, "scripts", "serve.ts");
  const child = spawn(
    process.execPath,
    [
      serve,
      ...["--port", String(place.port), "--databases", databases(place)],
      ...(inspectorPort === undefined ? [] : ["--inspector-port", String(inspectorPort)]),
    ],
    {
      cwd: place.root,
      env: {
        ...environment(),
        ...{ TMPDIR, TEMP, TMP },
        SIGNING_KEYS: readFileSync(keyFile(place), "utf8").trim(),
      },
      stdio: ["ignore", log, log, "ipc"],
      detached: true,
    },
  );
  closeSync(log);
  const stop = () => endChild(child, "SIGTERM", 10_000);
  const failed = async () => {
    await ended(child);
    return `The endpoint has ended. Its log: ${logFile(place)}`;
  };
  const ready = await Promise.race([new Promise((resolve) => child.once("message", resolve)), failed()]);
  if (ready === "ready") return { url: `http://localhost:${place.port}`, process: child, failed, stop };
  const tail = readFileSync(logFile(place), "utf8").trim().split("\n").slice(-15).join("\n");
  throw new Error(`The endpoint did not start. Its log ends:\n${tail}`);
}
