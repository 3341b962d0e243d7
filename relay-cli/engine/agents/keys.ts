import { tmpdir } from "node:os";
import { EngineError } from "../errors.ts";
import type { EnginePorts } from "../ports.ts";
import { runCommand } from "../process/command.ts";
import type { Guard } from "../process/guard.ts";

const SERVICE = "graph-relay";

/** The program that reads a secret of the OS keychain, by platform. The key comes on its standard output. */
const KEYCHAIN: Partial<Record<NodeJS.Platform, (account: string) => [string, ...string[]]>> = {
  darwin: (account) => ["/usr/bin/security", "find-generic-password", "-s", SERVICE, "-a", account, "-w"],
  linux: (account) => ["secret-tool", "lookup", "service", SERVICE, "account", account],
};

/** Where a provider's key is kept. */
export interface KeySource {
  api_key_env?: string | undefined;
  api_key_keychain?: string | undefined;
}

/** The key, or undefined where none is configured. Throws if one is configured and not there. */
export async function readKey(
  ports: EnginePorts,
  guard: Guard,
  provider: string,
  { api_key_env, api_key_keychain }: KeySource,
): Promise<string | undefined> {
  if (api_key_env !== undefined) {
    const key = ports.env[api_key_env];
    if (key !== undefined && key !== "") return key;
    if (api_key_keychain === undefined)
      throw new EngineError(
        "not_found",
        `The key of provider ${provider} is not set: put it into the environment variable ${api_key_env}.`,
      );
  }
  return api_key_keychain === undefined ? undefined : fromKeychain(ports, guard, provider, api_key_keychain);
}

async function fromKeychain(
  ports: EnginePorts,
  guard: Guard,
  provider: string,
  account: string,
): Promise<string> {
  const lookup = KEYCHAIN[process.platform]?.(account);
  if (lookup === undefined)
    throw new EngineError("not_found", "There is no keychain to read on this platform; use api_key_env.");
  const [command, ...args] = lookup;
  const result = await runCommand(
    ports,
    guard,
    { command, args, cwd: tmpdir(), env: ports.env, timeoutMilliseconds: 30_000, maxBytes: 16_384 },
    new AbortController().signal,
  );
  const key = result.stdout.replace(/\r?\n$/, "");
  if (result.code !== 0 || key === "")
    throw new EngineError(
      "not_found",
      `The keychain has no key of provider ${provider} (service ${SERVICE}, account ${account}).`,
    );
  return key;
}

/** `text` with every occurrence of the secrets blacked out: some servers repeat a wrong key in their error. */
export const redact = (text: string, secrets: readonly (string | undefined)[]): string =>
  secrets.reduce<string>(
    (t, secret) => (secret === undefined || secret.length < 4 ? t : t.replaceAll(secret, "•••")),
    text,
  );
