import * as z from "zod";

const name = z.string().regex(/^[a-z0-9][a-z0-9-]{0,39}$/, "must be a-z, 0-9 and -, 40 at most");
const envName = z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/, "must be the name of an environment variable");

/** US dollars for a million tokens. */
const price = z.strictObject({
  input_per_million: z.number().min(0),
  output_per_million: z.number().min(0),
});

const common = {
  /** By model; `*` is for every other one. */
  prices: z.record(z.string(), price).default({}),
  /** The model that is used where only the provider is named. */
  model: z.string().min(1).optional(),
  /** How long one agent may take, all its steps together. */
  timeout_seconds: z.number().int().min(1).max(86_400).default(600),
};

const keySource = {
  /** The environment variable that holds the key. */
  api_key_env: envName.optional(),
  /** The account under which the OS keychain holds the key, service `graph-relay`. */
  api_key_keychain: z.string().min(1).max(120).optional(),
};

const provider = z.discriminatedUnion("kind", [
  z.strictObject({
    kind: z.literal("openai-compatible"),
    base_url: z.url({ protocol: /^https?$/ }),
    /** Whether the server takes a JSON Schema for its answer; if not, the schema goes into the prompt. */
    structured_outputs: z.boolean().default(true),
    ...keySource,
    ...common,
  }),
  z.strictObject({
    kind: z.literal("anthropic"),
    base_url: z.url({ protocol: /^https?$/ }).optional(),
    ...keySource,
    ...common,
  }),
  z.strictObject({
    kind: z.literal("command"),
    /** Program and arguments. `{prompt}`, `{system}` and `{model}` are filled in; without `{prompt}` it goes to standard input. */
    command: z.array(z.string()).min(1),
    /** How the answer and its tokens are read from standard output. */
    output: z.enum(["text", "claude-json", "codex-jsonl"]).default("text"),
    ...common,
  }),
]);
export type ProviderConfig = z.infer<typeof provider>;
export type CommandProvider = Extract<ProviderConfig, { kind: "command" }>;
export type HttpProvider = Exclude<ProviderConfig, { kind: "command" }>;

/** Values may name environment variables as `${NAME}`, so that no secret is in the file. */
const values = z.record(z.string(), z.string()).default({});
const mcpServer = z.union([
  z.strictObject({ command: z.string().min(1), args: z.array(z.string()).default([]), env: values }),
  z.strictObject({ url: z.url({ protocol: /^https?$/ }), headers: values }),
]);
export type McpServerConfig = z.infer<typeof mcpServer>;

/** What the owner configured for all Graphs: the models there are, and the MCP servers. */
export const engineConfig = z.strictObject({
  /** `provider/model`, for agents that name none. */
  default_model: z.string().min(1).optional(),
  providers: z.record(name, provider).default({}),
  mcp_servers: z.record(name, mcpServer).default({}),
});
export type EngineConfig = z.infer<typeof engineConfig>;
export const EMPTY_CONFIG: EngineConfig = engineConfig.parse({});
