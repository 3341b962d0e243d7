import envPaths from "env-paths";
import { CommandError } from "../exit-codes.ts";
import { createRelayApi, type RelayApi } from "../relay/api.ts";
import type { Failure } from "../relay/failure.ts";
import type { RelayLog } from "../relay/ports.ts";
import { createSigner, systemClock, systemTransport } from "../relay/system.ts";
import { createTokenSource } from "../relay/token.ts";
import type { Device, Graph, Project, Store } from "../store/contract.ts";
import { type OpenedStore, openStore } from "../store/open.ts";
import { VERSION } from "../version.ts";
import { systemTerminal, type Terminal } from "./terminal.ts";

/** What every command works with. The state file is opened when it is first needed. */
export interface Context {
  readonly terminal: Terminal;
  readonly folder: string;
  readonly opened: OpenedStore;
  readonly store: Store;
  /** Lines of the relay's own parts, for the person. */
  readonly log: RelayLog;
  close(): void;
}

/** The state folder: `--state`, or GRAPH_RELAY_STATE, or the platform's own. */
const stateFolder = (option: string | undefined): string =>
  option ?? process.env.GRAPH_RELAY_STATE ?? envPaths("graph-relay", { suffix: "" }).data;

export function createContext(stateOption: string | undefined): Context {
  const terminal = systemTerminal();
  const folder = stateFolder(stateOption);
  let opened: OpenedStore | undefined;
  const open = (): OpenedStore => {
    if (opened) return opened;
    opened = openStore(folder);
    for (const note of opened.notes) terminal.say(note);
    return opened;
  };
  return {
    terminal,
    folder,
    get opened() {
      return open();
    },
    get store() {
      return open().store;
    },
    log: { info: terminal.say, warn: terminal.say },
    close: () => opened?.store.close(),
  };
}

/** The pairing, or an error that says how to get one. */
export function pairedDevice(context: Context): Device {
  const device = context.store.device.get();
  if (device) return device;
  throw new CommandError(
    "not_paired",
    "This machine is not paired with an account. Run `graph-relay login URL` with the address of your endpoint.",
  );
}

/** The relay API in the name of this machine's device. */
export function deviceApi(context: Context, device: Device): RelayApi {
  const ports = {
    clock: systemClock,
    transport: systemTransport,
    signer: createSigner({ ...device, client_version: VERSION }),
    log: context.log,
  };
  const tokens = createTokenSource(ports, device.server_url);
  const never = new AbortController().signal;
  return createRelayApi(ports, tokens, device.server_url, { leaving: never, gone: never });
}

/** What a command ends with when the server did not do what it asked. */
export function refusal(failure: Failure): CommandError {
  if (failure.code === "version_unsupported") return new CommandError("too_old", failure.text);
  if (failure.code === "device_removed" || failure.code === "assertion_invalid")
    return new CommandError("device_removed", failure.text);
  return new CommandError(failure.kind === "retry" ? "unreachable" : "failed", failure.text);
}

/** A saved Graph by slug or session id. */
export function namedGraph(store: Store, name: string): Graph {
  const graph = store.graphs.find(name);
  if (graph) return graph;
  const known = store.graphs.list().map((one) => one.slug);
  throw new CommandError(
    "usage",
    `There is no Graph called ${JSON.stringify(name)}. ${known.length > 0 ? `There are: ${known.join(", ")}.` : "Add one with `graph-relay graph add FILE`."}`,
  );
}

/** A project by id or name; the only one, if none is named. */
export function namedProject(store: Store, name: string | undefined): Project {
  const projects = store.projects.list();
  const [only, another] = projects;
  if (name === undefined && only && !another) return only;
  const list = projects.map((one) => `${one.name} (${one.project_id})`).join(", ") || "none";
  if (name === undefined)
    throw new CommandError("usage", `Name a project with --project. Known are: ${list}.`);
  const found = store.projects.find(name);
  if (found) return found;
  throw new CommandError(
    "usage",
    `There is no one project ${JSON.stringify(name)}. Known are: ${list}. \`graph-relay projects\` asks the server anew.`,
  );
}
