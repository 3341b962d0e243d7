import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { newDeviceKey } from "../../../relay-cli/commands/pairing.ts";
import type { Store } from "../../../relay-cli/store/contract.ts";
import { openStore } from "../../../relay-cli/store/open.ts";
import { PROJECT } from "./server.ts";

export const MAIN = resolve(import.meta.dirname, "../../../relay-cli/main.ts");

export interface Ended {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** A state folder of its own, and the program on it as a process of its own. */
export class Cli {
  readonly folder = mkdtempSync(join(tmpdir(), "graph-relay-cli-"));
  readonly #children = new Set<ChildProcess>();

  /** Starts the program without a terminal. `stdin` is what it can read there. */
  spawn(
    words: readonly string[],
    { env = {}, stdin = "", cwd }: { env?: Record<string, string>; stdin?: string; cwd?: string } = {},
  ) {
    const child = spawn(process.execPath, [MAIN, "--state", this.folder, ...words], {
      env: { ...process.env, ...env },
      cwd,
    });
    child.stdout.setEncoding("utf8");
    child.stderr.setEncoding("utf8");
    this.#children.add(child);
    child.stdin.on("error", () => {});
    child.stdin.end(stdin);
    let stdout = "";
    let stderr = "";
    const waiters: (() => void)[] = [];
    child.stdout.on("data", (chunk) => {
      stdout += chunk;
    });
    child.stderr.on("data", (chunk) => {
      stderr += chunk;
      for (const wake of waiters) wake();
    });
    const ended = new Promise<Ended>((done) => {
      child.on("close", (code) => {
        this.#children.delete(child);
        done({ code, stdout, stderr });
      });
    });
    return {
      child,
      ended,
      /** Resolves once stderr holds this text. */
      says: (text: string) =>
        new Promise<void>((done) => {
          const look = () => stderr.includes(text) && done();
          waiters.push(look);
          look();
        }),
    };
  }

  run(
    words: readonly string[],
    options: { env?: Record<string, string>; stdin?: string; cwd?: string } = {},
  ): Promise<Ended> {
    return this.spawn(words, options).ended;
  }

  store<T>(body: (store: Store) => T): T {
    const opened = openStore(this.folder);
    try {
      return body(opened.store);
    } finally {
      opened.store.close();
    }
  }

  /** Pairs the folder with an endpoint, without asking it. */
  async pair(serverUrl: string): Promise<void> {
    const { privateJwk } = await newDeviceKey();
    this.store((store) =>
      store.device.pair(
        {
          device_id: "dev_00000000000000000000000000000001",
          account_name: "Owner",
          server_url: serverUrl,
          name: "laptop",
          private_jwk: privateJwk,
          paired_at: 0,
        },
        [{ project_id: PROJECT, name: "First" }],
      ),
    );
  }

  /** Ends what still runs, and deletes the folder. */
  async remove(): Promise<void> {
    const gone = [...this.#children].map((child) => new Promise((done) => child.on("close", done)));
    for (const child of this.#children) child.kill("SIGKILL");
    await Promise.all(gone);
    rmSync(this.folder, { recursive: true, force: true });
  }
}
