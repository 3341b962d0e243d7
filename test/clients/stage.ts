import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { type IPty, spawn as spawnTerminal } from "@lydell/node-pty";
import type { Page } from "playwright-core";
import { run } from "../../scripts/lib/processes.ts";
import type { sessionsDigest } from "../../src/protocol/relay-api.ts";
import type { TestEndpoint } from "../support/endpoint.ts";
import type { ScriptedDevice } from "../support/scripted-device.ts";
import type { ClosedDoor } from "./closed-door.ts";

/** How far a client can get, in order. */
export const MILESTONES = [
  "server added",
  "signed in through the consent page",
  "connected",
  "four tools listed",
  "a run finished",
] as const;
export type Milestone = (typeof MILESTONES)[number];

export const TOOLS = ["list_graph_sessions", "run_graph_session", "get_graph_run", "cancel_graph_run"];
export const SESSION = {
  graph_session_id: "gs_00000000000000000000000000000001",
  name: "Report",
  description: "Counts files",
  slug: "report",
  version: "1",
  status: "ready",
} as const satisfies Parameters<typeof sessionsDigest>[0][number];

const STEP_MS = 60_000;
const KEY_MS = 15;
const PAUSE_MS = 800;

/** What every client is given: the endpoint, the owner at a browser, and a home of its own. */
export interface Theatre {
  endpoint: TestEndpoint;
  page: Page;
  device: ScriptedDevice;
  door: ClosedDoor;
}

/** One client's turn: a home folder of its own, a browser opener that tells us, and no way out but loopback. */
export class Stage {
  readonly url: string;
  readonly home = mkdtempSync(join(tmpdir(), "graph-relay-client-"));
  readonly work = join(this.home, "work");
  readonly reached: Milestone[] = [];
  readonly #theatre: Theatre;
  readonly #terminals: IPty[] = [];

  constructor(theatre: Theatre) {
    this.#theatre = theatre;
    this.url = `${theatre.endpoint.url}/mcp`;
    mkdirSync(this.work);
    const opener = join(this.home, "bin", "xdg-open");
    mkdirSync(dirname(opener));
    writeFileSync(opener, `#!/bin/sh\nprintf '%s\\n' "$1" >> '${this.#opened}'\n`);
    chmodSync(opener, 0o700);
  }

  get #opened(): string {
    return join(this.home, "opened");
  }

  /** The client's program among what was installed. */
  program(name: string): string {
    return join(import.meta.dirname, "node_modules", ".bin", name);
  }

  env(more: Record<string, string> = {}): Record<string, string> {
    const opener = join(this.home, "bin", "xdg-open");
    return {
      HOME: this.home,
      PATH: [dirname(opener), dirname(process.execPath), process.env.PATH].join(delimiter),
      LANG: "C.UTF-8",
      TERM: "xterm-256color",
      BROWSER: opener,
      // Clients look for a screen before they open a browser; the opener above needs none.
      DISPLAY: ":0",
      HTTP_PROXY: this.#theatre.door.url,
      HTTPS_PROXY: this.#theatre.door.url,
      NO_PROXY: "localhost,127.0.0.1,::1",
      ...more,
    };
  }

  mark(milestone: Milestone): void {
    this.reached.push(milestone);
  }

  /** Runs the client to its end. */
  run(
    name: string,
    words: readonly string[],
    env: Record<string, string> = {},
    onStderr: (text: string) => void = () => {},
  ): Promise<string> {
    return within(
      `${name} ${words.join(" ")}`,
      run(this.program(name), words, { cwd: this.work, env: this.env(env), timeout: STEP_MS, onStderr }),
    );
  }

  /** Runs the client at a terminal, as a person does. */
  terminal(name: string, words: readonly string[], env: Record<string, string> = {}): Terminal {
    const pty = spawnTerminal(this.program(name), [...words], {
      cols: 200,
      rows: 50,
      cwd: this.work,
      env: this.env(env),
    });
    this.#terminals.push(pty);
    return new Terminal(`${name} ${words.join(" ")}`, pty);
  }

  /**
   * Waits for the client to open a browser at our consent page, or to print its address, and allows what it
   * asks for there. `printed`: what the client has shown so far.
   */
  async allow(printed: () => string = () => ""): Promise<void> {
    const url = await within("the client opens a browser", this.#nextPage(printed), printed);
    const { page } = this.#theatre;
    await page.goto(url);
    for (const box of await page.locator("input[name=project_id]").all()) await box.check();
    await page.getByRole("button", { name: "Allow", exact: true }).click();
    await page.waitForURL((to) => !to.href.startsWith(this.#theatre.endpoint.url));
    this.mark("signed in through the consent page");
  }

  /** What a laptop does with the run that the client has queued. */
  async finishRun(commandId: string): Promise<void> {
    await this.#theatre.device.sync([SESSION]);
    await this.#theatre.device.finish(commandId, { files: 3 });
  }

  /** The hosts outside that the client asked for since the last look. All were refused. */
  refusedHosts(): string[] {
    return this.#theatre.door.takeRefused();
  }

  close(): void {
    for (const pty of this.#terminals) {
      try {
        pty.kill("SIGKILL");
      } catch {
        // It has ended by itself.
      }
    }
    rmSync(this.home, { recursive: true, force: true, maxRetries: 5 });
  }

  async #nextPage(printed: () => string): Promise<string> {
    const consent = new RegExp(`${this.#theatre.endpoint.url}/authorize\\?\\S+(?=\\s)`);
    for (;;) {
      const opened = existsSync(this.#opened) ? readFileSync(this.#opened, "utf8") : "";
      const [page] = consent.exec(opened) ?? consent.exec(printed()) ?? [];
      if (page !== undefined) {
        rmSync(this.#opened, { force: true });
        return page;
      }
      await new Promise((done) => setTimeout(done, 100));
    }
  }
}

/** A client at a terminal. */
export class Terminal {
  readonly #what: string;
  readonly #pty: IPty;
  #shown = "";
  readonly #waiters = new Set<() => void>();
  readonly ended: Promise<number>;

  constructor(what: string, pty: IPty) {
    this.#what = what;
    this.#pty = pty;
    pty.onData((text) => {
      this.#shown += text;
      for (const look of this.#waiters) look();
    });
    this.ended = new Promise((done) => pty.onExit(({ exitCode }) => done(exitCode)));
  }

  /** All it has shown, without escape sequences. */
  get shown(): string {
    return stripVTControlCharacters(this.#shown);
  }

  /** Types a line as a person does: programs take what comes all at once for pasted text. */
  async enter(line: string): Promise<void> {
    for (const key of [...line, "\r"]) {
      if (key === "\r") await new Promise((done) => setTimeout(done, PAUSE_MS));
      this.#pty.write(key);
      await new Promise((done) => setTimeout(done, KEY_MS));
    }
  }

  shows(text: RegExp): Promise<void> {
    const seen = new Promise<void>((done) => {
      const look = () => {
        if (!text.test(this.shown)) return;
        this.#waiters.delete(look);
        done();
      };
      this.#waiters.add(look);
      look();
    });
    return within(
      `${this.#what} shows ${text}`,
      seen,
      () => `It showed:\n${this.shown.trim().split("\n").slice(-25).join("\n")}`,
    );
  }
}

/** Fails with what was waited for when it takes too long. */
export async function within<T>(what: string, work: Promise<T>, more: () => string = () => ""): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, failed) => {
    timer = setTimeout(
      () => failed(new Error(`Not within ${STEP_MS / 1000} s: ${what}. ${more()}`)),
      STEP_MS,
    );
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Fails unless these are the four tools, under whatever prefix a client gives them. */
export function expectTools(names: readonly string[]): void {
  const ours = TOOLS.filter((tool) => names.some((name) => name === tool || name.endsWith(`_${tool}`)));
  if (ours.length !== TOOLS.length) throw new Error(`Not the four tools: ${names.join(", ")}`);
}
