import type { CommandProvider, EngineConfig, HttpProvider, ProviderConfig } from "../config.ts";
import { EngineError } from "../errors.ts";
import { ownValue } from "../own.ts";
import type { EnginePorts } from "../ports.ts";

/** A model that an agent can be run on. */
export type AgentModel = { name: string; provider: string } & (
  | { kind: "http"; config: HttpProvider; model: string }
  | { kind: "command"; config: CommandProvider; model: string | undefined }
);

const common = { prices: {}, timeout_seconds: 600 };

/** Command-line agents that need no configuration, if they are installed. They get the prompt on standard input. */
const BUILT_IN: Readonly<Record<string, ProviderConfig>> = {
  claude: {
    kind: "command",
    command: ["claude", "-p", "--output-format", "json", "--model", "{model}"],
    output: "claude-json",
    ...common,
  },
  codex: {
    kind: "command",
    command: [
      "codex",
      "exec",
      "--json",
      "--skip-git-repo-check",
      "--sandbox",
      "read-only",
      "--model",
      "{model}",
      "-",
    ],
    output: "codex-jsonl",
    ...common,
  },
  anthropic: { kind: "anthropic", api_key_env: "ANTHROPIC_API_KEY", ...common },
};

/** Servers on the laptop that are looked for where they usually are. */
const LOCAL_SERVERS: readonly { name: string; url: string }[] = [
  { name: "ollama", url: "http://127.0.0.1:11434/v1" },
  { name: "lmstudio", url: "http://127.0.0.1:1234/v1" },
];
const DISCOVERY_MILLISECONDS = 1_500;

const localProvider = (url: string): ProviderConfig => ({
  kind: "openai-compatible",
  base_url: url,
  structured_outputs: true,
  ...common,
});

/**
 * The model named `provider/model` or `provider`; without a name the configured default, then the first model of a
 * server found on this machine. An EngineError says what there is.
 */
export async function findModel(
  ports: EnginePorts,
  config: EngineConfig,
  wanted: string | undefined,
): Promise<AgentModel> {
  const name = wanted ?? config.default_model;
  if (name === undefined) return firstLocalModel(ports, config);
  const slash = name.indexOf("/");
  const provider = slash === -1 ? name : name.slice(0, slash);
  const model = slash === -1 ? undefined : name.slice(slash + 1);
  const local = LOCAL_SERVERS.find((s) => s.name === provider);
  const found =
    ownValue(config.providers, provider) ??
    ownValue(BUILT_IN, provider) ??
    (local === undefined ? undefined : localProvider(local.url));
  if (found === undefined) {
    const names = new Set([
      ...Object.keys(config.providers),
      ...Object.keys(BUILT_IN),
      ...LOCAL_SERVERS.map((s) => s.name),
    ]);
    throw new EngineError(
      "not_found",
      `There is no provider ${JSON.stringify(provider)}. There are: ${[...names].join(", ")}. A model is named provider/model.`,
    );
  }
  if (found.kind === "command")
    return { name, provider, kind: "command", config: found, model: model ?? found.model };
  const id = model ?? found.model ?? (await modelsOf(ports, found))[0];
  if (id === undefined)
    throw new EngineError(
      "not_found",
      `Provider ${provider} was named without a model, and does not say which it has. Name one: ${provider}/<model>.`,
    );
  return { name: `${provider}/${id}`, provider, kind: "http", config: found, model: id };
}

async function firstLocalModel(ports: EnginePorts, config: EngineConfig): Promise<AgentModel> {
  for (const { name, url } of LOCAL_SERVERS) {
    const provider = ownValue(config.providers, name) ?? localProvider(url);
    if (provider.kind === "command") continue;
    const [model] = await modelsOf(ports, provider);
    if (model !== undefined)
      return { name: `${name}/${model}`, provider: name, kind: "http", config: provider, model };
  }
  throw new EngineError(
    "not_found",
    "The agent names no model, no default_model is configured, and neither Ollama nor LM Studio answers on this machine. " +
      'Start one of them, or name a model, such as model: "claude" for the claude command.',
  );
}

/** The models a server says it has; none if it does not answer. Embedding models cannot be agents. */
async function modelsOf(ports: EnginePorts, provider: HttpProvider): Promise<string[]> {
  if (provider.base_url === undefined) return [];
  const limit = new AbortController();
  const cancel = ports.clock.after(DISCOVERY_MILLISECONDS, () => limit.abort());
  try {
    const answer = await ports.fetch(`${provider.base_url.replace(/\/$/, "")}/models`, {
      signal: limit.signal,
    });
    const body = (await answer.json()) as { data?: { id?: unknown }[] };
    const ids = (Array.isArray(body.data) ? body.data : []).map((m) => m.id);
    return ids.filter((id): id is string => typeof id === "string" && !/embed/i.test(id));
  } catch {
    return [];
  } finally {
    cancel();
  }
}
