import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { homedir, tmpdir } from "node:os";
import { dirname, join, parse, sep } from "node:path";
import { fileURLToPath } from "node:url";
import type { EnginePorts } from "../ports.ts";
import type { GraphSettings } from "../settings.ts";
import { type ProcessGroup, spawnGroup } from "./group.ts";
import type { Guard } from "./guard.ts";

const here = import.meta.url;
const isSource = here.endsWith(".ts");
/** The program of a Graph's process: in this package as source, beside the bundle when packed. */
const HOST = fileURLToPath(new URL(isSource ? "../host/main.ts" : "./host.js", here));
/** What that program is made of. */
const HOST_FILES = isSource
  ? [dirname(dirname(HOST)), dirname(createRequire(here).resolve("@cfworker/json-schema/package.json"))]
  : [HOST];

/** Starts the process that will load a Graph. `path` is the Graph's real path. */
export function spawnGraph(
  ports: EnginePorts,
  guard: Guard,
  path: string,
  settings: Pick<GraphSettings, "memory_megabytes" | "trusted">,
): ProcessGroup {
  const flags = [
    `--max-old-space-size=${settings.memory_megabytes}`,
    "--disable-warning=ExperimentalWarning",
    ...(settings.trusted ? [] : permissionFlags(path, ports.offLimits)),
  ];
  return spawnGroup(ports, guard, process.execPath, [...flags, HOST], {
    cwd: dirname(path),
    env: graphEnvironment(ports.env, settings.trusted),
    stdio: ["ignore", "pipe", "pipe", "pipe"],
  });
}

/**
 * Node's permission model: no processes, workers, add-ons or writing, and reading only of the Graph's own folder,
 * the packages it can import and the host program. A folder that holds more than a Graph (the home
 * folder, the temporary one, a root, one with something off limits in it) is not opened for it, only the file.
 */
function permissionFlags(path: string, offLimits: readonly string[]): string[] {
  if (!process.allowedNodeEnvironmentFlags.has("--permission")) return [];
  const folder = dirname(path);
  const readable = [isBroad(folder, offLimits) ? path : folder, ...HOST_FILES, ...packageFolders(folder)];
  return ["--permission", ...readable.map((p) => `--allow-fs-read=${p}`)];
}

const isBroad = (folder: string, offLimits: readonly string[]): boolean =>
  [homedir(), tmpdir(), ...offLimits].some((broad) => broad === folder || broad.startsWith(folder + sep)) ||
  parse(folder).root === folder;

/** The `node_modules` folders that an import in `folder` looks into. */
function packageFolders(folder: string): string[] {
  const found: string[] = [];
  for (let at = folder; ; at = dirname(at)) {
    const candidate = join(at, "node_modules");
    if (existsSync(candidate)) found.push(candidate);
    if (dirname(at) === at) return found;
  }
}

/** No keys and no names: the language and the time zone; a trusted Graph sees what its owner's shell does. */
function graphEnvironment(env: EnginePorts["env"], trusted: boolean): NodeJS.ProcessEnv {
  if (trusted) return { ...env };
  const kept = ["LANG", "LC_ALL", "LC_CTYPE", "TZ", "SystemRoot"];
  return Object.fromEntries(kept.flatMap((name) => (env[name] === undefined ? [] : [[name, env[name]]])));
}
