import { existsSync, statSync } from "node:fs";
import { createServer } from "node:net";
import { resolve } from "node:path";
import { parseArgs } from "node:util";

export interface StartOptions {
  /** End after the main job ran once. */
  readonly once: boolean;
  /** The folder that the sample Graph reports on. */
  readonly folder: string;
  readonly port: number;
  /** Where the endpoint and the relay of this machine keep everything. */
  readonly state: string;
}

/** Something the person who started it can mend; the text says how. Exit code 2. */
export class StartProblem extends Error {}

export const START_USAGE = `npm start -- [--once] [--folder DIR] [--state DIR]

  --once        run the main job once and exit
  --folder DIR  the folder that the sample Graph reports on (default: this repository)
  --state DIR   where everything is kept (default: .graph-relay in this repository)
  PORT=N        the port to listen on (default: 8787)`;

/** Reads the command line and PORT. Throws `StartProblem`. */
export function startOptions(argv: readonly string[], env: NodeJS.ProcessEnv, root: string): StartOptions {
  const values = parse(argv);
  const folder = resolve(root, values.folder ?? ".");
  if (!existsSync(folder) || !statSync(folder).isDirectory())
    throw new StartProblem(`--folder: ${folder} is not a folder.`);
  const port = Number(env.PORT ?? "8787");
  if (!Number.isInteger(port) || port < 1 || port > 65_535)
    throw new StartProblem(
      `PORT: ${JSON.stringify(env.PORT)} is no port. Choose a whole number from 1 to 65535.`,
    );
  const state = resolve(root, values.state ?? ".graph-relay");
  return { once: values.once ?? false, folder, port, state };
}

function parse(argv: readonly string[]) {
  try {
    return parseArgs({
      args: [...argv],
      options: { once: { type: "boolean" }, folder: { type: "string" }, state: { type: "string" } },
    }).values;
  } catch (error) {
    throw new StartProblem(`${(error as Error).message}\n\n${START_USAGE}`);
  }
}

/** Throws `StartProblem` if something listens on the port already. */
export async function requireFreePort(port: number): Promise<void> {
  for (const host of ["127.0.0.1", "::1"]) {
    const code = await listenError(port, host);
    if (code === "EADDRINUSE")
      throw new StartProblem(
        `Port ${port} is taken by another program. Stop that one, or choose another port: PORT=${port === 65_535 ? 8787 : port + 1} npm start`,
      );
    if (code === "EACCES")
      throw new StartProblem(
        `Port ${port} may not be used by you. Choose one above 1023: PORT=8787 npm start`,
      );
  }
}

/** Why listening failed, if it did. A machine without IPv6 is no reason. */
function listenError(port: number, host: string): Promise<string | undefined> {
  return new Promise((done) => {
    const server = createServer();
    server.once("error", (error: NodeJS.ErrnoException) => done(error.code));
    server.listen(port, host, () => server.close(() => done(undefined)));
  });
}
