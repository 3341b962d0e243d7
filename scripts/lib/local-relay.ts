import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type RunOutput, runOutput } from "../../src/protocol/tools.ts";
import type { OwnerBrowser } from "./owner-browser.ts";
import { CommandFailed, endChild, ended, run } from "./processes.ts";

/** How long a relay that was told to stop may take to finish what runs. */
const DRAIN_MS = 60_000;

/** The relay of this machine, driven through its own command line as a person would. */
export class LocalRelay {
  readonly #root: string;
  readonly #state: string;
  readonly #url: string;
  #running: ChildProcess | undefined;

  constructor(place: { root: string; state: string; url: string }) {
    this.#root = place.root;
    this.#state = join(place.state, "relay");
    this.#url = place.url;
  }

  get #log(): string {
    return join(this.#state, "relay.log");
  }

  #arguments(words: readonly string[]): string[] {
    return [join(this.#root, "relay-cli", "main.ts"), "--state", this.#state, ...words];
  }

  #command(words: readonly string[], options: { input?: string; onStderr?: (text: string) => void } = {}) {
    return run(process.execPath, this.#arguments(words), { cwd: this.#root, ...options });
  }

  /** Pairs this machine with an enrolment code that the owner makes, unless it is paired with this endpoint. */
  async ensurePaired(owner: () => Promise<OwnerBrowser>): Promise<"was paired" | "paired"> {
    const { device } = JSON.parse(await this.#command(["status", "--json"])) as {
      device: { server: string } | null;
    };
    if (device?.server === this.#url) return "was paired";
    // The endpoint has moved to another port: to its clients that is another endpoint.
    if (device) await this.#command(["logout", "--local"]);
    await this.#command(["login", this.#url, "--code"], { input: await (await owner()).enrolmentCode() });
    return "paired";
  }

  /** Saves a Graph of the templates and shares it, with a folder it may read. */
  async share(template: string, folder: string): Promise<void> {
    const file = join(this.#root, "relay-cli", "templates", `${template}.mjs`);
    await this.#command(["graph", "add", file, "--folder", folder]);
    await this.#command(["share", template]);
  }

  /** Starts it and leaves it running. Its log is in its state folder. */
  start(): void {
    const log = openSync(this.#log, "a", 0o600);
    this.#running = spawn(process.execPath, this.#arguments(["start"]), {
      cwd: this.#root,
      stdio: ["ignore", log, log],
      detached: true,
    });
    closeSync(log);
  }

  /**
   * Asks for a run as a connected agent and waits until it ended. The first time the agent signs in:
   * `owner` answers its consent page.
   */
  async call(graph: string, args: object, owner: () => Promise<OwnerBrowser>): Promise<RunOutput> {
    let seen = "";
    const answered: Promise<void>[] = [];
    const onStderr = (text: string) => {
      seen += text;
      const page = /^http\S+\/authorize\?\S+$/m.exec(seen)?.[0];
      if (page === undefined || answered.length > 0) return;
      answered.push(allow(owner, page));
    };
    const words = ["call", graph, JSON.stringify(args), "--url", this.#url, "--no-browser", "--json"];
    const record = await this.#whenListed(() => this.#command(words, { onStderr }));
    await Promise.all(answered);
    return runOutput.parse(JSON.parse(record));
  }

  /** The relay's first pass, which makes a Graph known to agents, may still be under way. */
  async #whenListed(ask: () => Promise<string>): Promise<string> {
    for (let tries = 0; ; tries++) {
      try {
        return await ask();
      } catch (error) {
        const unknown = error instanceof CommandFailed && error.output.includes("No shared Graph");
        if (!unknown || tries === 30) throw error;
        await new Promise((resolve) => setTimeout(resolve, 1_000));
      }
    }
  }

  /** Resolves with what to tell the person when the relay ends by itself. */
  async failed(): Promise<string> {
    if (this.#running === undefined) throw new Error("The relay was not started");
    await ended(this.#running);
    const tail = readFileSync(this.#log, "utf8").trim().split("\n").slice(-5).join("\n");
    return `The relay has ended. It said last:\n${tail}`;
  }

  async stop(): Promise<void> {
    if (this.#running) await endChild(this.#running, "SIGTERM", DRAIN_MS);
  }
}

/** Allows what the page asks for, and takes the answer to the client, as a browser does. */
async function allow(owner: () => Promise<OwnerBrowser>, page: string): Promise<void> {
  const redirect = await (await owner()).approve(page);
  const response = await fetch(redirect);
  if (!response.ok) throw new Error(`The client refused the sign-in: ${await response.text()}`);
}
