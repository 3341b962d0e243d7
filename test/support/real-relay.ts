import { type ChildProcess, spawn } from "node:child_process";
import {
  closeSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { machine, newDeviceKey, registerDevice } from "../../relay-cli/commands/pairing.ts";
import { createRelayApi } from "../../relay-cli/relay/api.ts";
import { sharedSet } from "../../relay-cli/relay/sessions.ts";
import { createSigner, systemClock, systemTransport } from "../../relay-cli/relay/system.ts";
import { createTokenSource } from "../../relay-cli/relay/token.ts";
import type { Store } from "../../relay-cli/store/contract.ts";
import { openStore } from "../../relay-cli/store/open.ts";
import { VERSION } from "../../relay-cli/version.ts";
import { endChild, ended } from "../../scripts/lib/processes.ts";
import { newId } from "../../src/protocol/ids.ts";
import { systemRandom } from "../../src/protocol/ports.ts";
import { KILL_AT, type KillAt } from "../kill/kill-switch.ts";
import { type RelayRecords, relayRecords } from "../kill/records.ts";
import { ChaosProxy } from "./chaos-proxy.ts";
import type { TestEndpoint } from "./endpoint.ts";
import { processesIn } from "./processes-in.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const MAIN = join(ROOT, "relay-cli/main.ts");
const GRAPH = join(ROOT, "test/kill/side-effects.mjs");
const SWITCH = join(ROOT, "test/kill/kill-switch.ts");

/** What a Graph left behind: its run's key, and the process that ran it. */
export interface Mark {
  what: "begin" | "end";
  key: string;
  pid: number;
}

/** None outlives the tests, however they end. */
const running = new Set<ChildProcess>();
process.once("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

/**
 * A laptop: a paired state folder with one shared Graph that leaves marks, a proxy between it and the
 * endpoint, and the relay as a process that leads a group of its own.
 */
export class RealRelay {
  readonly folder: string;
  readonly sessionId = newId("gs", systemRandom);
  readonly proxy: ChaosProxy;
  projectId = "";
  /** What was on its disk each time it was killed. */
  readonly deaths: RelayRecords[] = [];
  /** How often it was started. */
  starts = 0;
  #child: ChildProcess | undefined;

  private constructor(proxy: ChaosProxy) {
    this.proxy = proxy;
    this.folder = mkdtempSync(join(tmpdir(), "graph-relay-laptop-"));
  }

  /** A new laptop of the endpoint's owner. `enrolmentCode` is good once. */
  static async pair(endpoint: TestEndpoint, enrolmentCode: string, name: string): Promise<RealRelay> {
    const proxy = await ChaosProxy.open(endpoint.url);
    const relay = new RealRelay(proxy);
    const key = await newDeviceKey();
    const device = await registerDevice(proxy.url, key, machine(name), { enrolment_code: enrolmentCode });
    const [project] = device.projects;
    if (!project) throw new Error("The account has no project");
    relay.projectId = project.project_id;
    mkdirSync(join(relay.folder, "graphs"));
    copyFileSync(GRAPH, relay.#graphFile("side-effects.mjs"));
    relay.store((store) => {
      const { device_id, account_name, projects } = device;
      store.device.pair(
        {
          ...{ device_id, account_name, name, server_url: proxy.url },
          ...{ private_jwk: key.privateJwk, paired_at: 0 },
        },
        projects,
      );
      store.graphs.add({
        ...{ graph_session_id: relay.sessionId, slug: "side-effects", name, description: "" },
        ...{ version: "1", path: relay.#graphFile("side-effects.mjs"), arguments_schema: null, added_at: 0 },
      });
      // Without Node's permission model, so that it writes its marks itself.
      store.settings.setLimits(relay.sessionId, { trusted: true });
      store.projects.share(project.project_id, relay.sessionId, 0);
    });
    await relay.#tellSessions();
    return relay;
  }

  /** Tells the endpoint what is shared, as the first pass of a relay does. */
  async #tellSessions(): Promise<void> {
    const { device, shared } = this.store(({ device, projects }) => ({
      device: device.get(),
      shared: sharedSet(projects.shared(this.projectId), () => true),
    }));
    if (!device) throw new Error("The laptop is not paired");
    const ports = {
      clock: systemClock,
      transport: systemTransport,
      signer: createSigner({ ...device, client_version: VERSION }),
      log: { info: () => {}, warn: () => {} },
    };
    const never = new AbortController().signal;
    const tokens = createTokenSource(ports, device.server_url);
    const api = createRelayApi(ports, tokens, device.server_url, { leaving: never, gone: never });
    const answer = await api.sync({
      ...{ project_id: this.projectId, client_version: VERSION },
      ...{ sessions_digest: shared.digest, sessions: shared.sessions },
    });
    if (!answer.ok) throw new Error(answer.failure.text);
  }

  get running(): boolean {
    return this.#child !== undefined;
  }

  start(killAt?: KillAt, words: readonly string[] = []): void {
    if (this.#child) return;
    const log = openSync(join(this.folder, "log"), "a");
    const child = spawn(
      process.execPath,
      [...(killAt ? ["--import", SWITCH] : []), MAIN, "--state", this.folder, "start", ...words],
      {
        cwd: this.folder,
        stdio: ["ignore", log, log],
        detached: true,
        env: { ...process.env, ...(killAt ? { [KILL_AT]: JSON.stringify(killAt) } : {}) },
      },
    );
    closeSync(log);
    this.starts++;
    this.#child = child;
    running.add(child);
    child.once("close", (_, signal) => {
      running.delete(child);
      this.#child = undefined;
      if (signal === "SIGKILL") this.deaths.push(this.records());
    });
  }

  /** Resolves when no relay runs here. */
  async gone(): Promise<void> {
    while (this.#child) await ended(this.#child);
  }

  /** `kill -9` of the relay itself. What it leaves behind is its own matter. */
  async kill9(): Promise<void> {
    this.#child?.kill("SIGKILL");
    await this.gone();
  }

  async stop(): Promise<void> {
    if (this.#child) await endChild(this.#child, "SIGTERM", 30_000);
    await this.gone();
  }

  /** Makes it look at once, as a change of sharing does. */
  wake(): void {
    this.store((store) => store.projects.bumpSharingVersion());
  }

  store<T>(body: (store: Store) => T): T {
    const { store } = openStore(this.folder);
    try {
      return body(store);
    } finally {
      store.close();
    }
  }

  records(): RelayRecords {
    return relayRecords(join(this.folder, "state.db"));
  }

  marks(): Mark[] {
    const text = readFileSync(openedOrMade(this.#graphFile("marks")), "utf8");
    return text
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => {
        const [what, key = "", pid] = line.split(" ");
        return { what: what === "begin" ? "begin" : "end", key, pid: Number(pid) };
      });
  }

  /** Lets a Graph end that waits for it. */
  letGo(key: string): void {
    closeSync(openSync(this.#graphFile(`go-${key}`), "w"));
  }

  log(): string {
    const file = join(this.folder, "log");
    return existsSync(file) ? readFileSync(file, "utf8") : "";
  }

  leftovers(): string[] {
    return processesIn(this.folder);
  }

  async remove(): Promise<void> {
    await this.kill9();
    await this.proxy.close();
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }

  #graphFile(name: string): string {
    return join(this.folder, "graphs", name);
  }
}

function openedOrMade(path: string): string {
  closeSync(openSync(path, "a"));
  return path;
}
