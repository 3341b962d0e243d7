import { tmpdir } from "node:os";
import type { Json } from "../contract.ts";
import { cutText } from "../error-text.ts";
import { EngineError } from "../errors.ts";
import type { EnginePorts } from "../ports.ts";
import { runCommand } from "../process/command.ts";
import type { Guard } from "../process/guard.ts";
import {
  type AgentAnswer,
  type AgentOptions,
  estimateTokens,
  findJson,
  type StepUsage,
  schemaInstruction,
} from "./agent.ts";
import type { AgentModel } from "./models.ts";

const MAX_OUTPUT_BYTES = 16_000_000;

/** What a command is given for one agent. */
export interface CommandCall {
  model: Extract<AgentModel, { kind: "command" }>;
  prompt: string;
  options: AgentOptions;
  signal: AbortSignal;
  onStep(usage: StepUsage): void;
}

/**
 * Runs an agent as a local command, such as `claude -p`, in a process group of its own and in the temporary
 * folder, so that it finds nobody's files around it. It has the owner's environment, as it needs its own sign-in.
 */
export async function runCommandAgent(
  ports: EnginePorts,
  guard: Guard,
  { model, prompt, options, signal, onStep }: CommandCall,
): Promise<AgentAnswer> {
  if (options.tools.length > 0)
    throw new EngineError(
      "invalid_input",
      `agent: ${model.name} is a command with tools of its own; leave out tools, or take another model.`,
    );
  const system = [options.system, options.schema ? schemaInstruction(options.schema) : undefined]
    .filter((part) => part !== undefined)
    .join("\n\n");
  const { args, input } = fillIn(model, prompt, system);
  const [command = "", ...rest] = args;
  const result = await runCommand(
    ports,
    guard,
    {
      command,
      args: rest,
      ...(input === undefined ? {} : { input }),
      cwd: tmpdir(),
      env: ports.env,
      timeoutMilliseconds: model.config.timeout_seconds * 1000,
      maxBytes: MAX_OUTPUT_BYTES,
    },
    signal,
  );
  signal.throwIfAborted();
  if (result.error !== undefined)
    throw new EngineError(
      "not_found",
      `${model.name}: ${JSON.stringify(command)} cannot be run (${(result.error as NodeJS.ErrnoException).code ?? result.error.message}). Is it installed and in the PATH?`,
    );
  const told = READERS[model.config.output](result.stdout);
  const usage = told.usage ?? {
    input_tokens: estimateTokens(system + prompt),
    output_tokens: estimateTokens(told.text),
  };
  onStep(usage);
  if (result.timedOut)
    throw new EngineError("failed", `${model.name} took more than ${model.config.timeout_seconds} s.`);
  if (result.code !== 0 || told.error !== undefined) {
    const why = told.error ?? cutText(result.stderr.trim() || told.text, 1_000);
    throw new EngineError(
      "failed",
      `${model.name} failed (exit code ${result.code ?? result.signal}): ${why}`,
    );
  }
  if (options.schema === undefined) return { text: told.text, toolCalls: [] };
  const object = findJson(told.text);
  if (object === undefined)
    throw new EngineError("invalid_answer", "The command's answer holds no JSON, which its schema asks for.");
  return { text: told.text, object, toolCalls: [] };
}

/** The command line, and what goes to standard input. An argument for a model that was not named goes, with its flag. */
function fillIn(
  { config, model }: CommandCall["model"],
  prompt: string,
  system: string,
): { args: string[]; input: string | undefined } {
  const takesPrompt = config.command.some((arg) => arg.includes("{prompt}"));
  const takesSystem = config.command.some((arg) => arg.includes("{system}"));
  const whole = takesSystem || system === "" ? prompt : `${system}\n\n${prompt}`;
  const words: Record<string, string> = { prompt: whole, system, model: model ?? "" };
  const kept = config.command.filter(
    (arg, i) => model !== undefined || (arg !== "{model}" && config.command[i + 1] !== "{model}"),
  );
  const args = kept.map((arg) =>
    arg.replace(/\{(prompt|system|model)\}/g, (_, word: string) => words[word] ?? ""),
  );
  return { args, input: takesPrompt ? undefined : whole };
}

interface Told {
  text: string;
  usage?: StepUsage;
  error?: string;
}

/** How each kind of output is read. One that is not as expected is taken as plain text. */
const READERS: Readonly<Record<"text" | "claude-json" | "codex-jsonl", (stdout: string) => Told>> = {
  text: (stdout) => ({ text: stdout.trim() }),
  "claude-json": readClaude,
  "codex-jsonl": readCodex,
};

type Fields = { [key: string]: Json | undefined };
const isFields = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const count = (value: unknown): number => (typeof value === "number" && value >= 0 ? Math.round(value) : 0);

/** `claude -p --output-format json`: one object with `result`, `usage` and `total_cost_usd`. */
function readClaude(stdout: string): Told {
  const value = findJson(stdout);
  if (!isFields(value) || typeof value.result !== "string") return { text: stdout.trim() };
  const usage = isFields(value.usage) ? value.usage : undefined;
  return {
    text: value.result,
    ...(usage === undefined
      ? {}
      : {
          usage: {
            input_tokens:
              count(usage.input_tokens) +
              count(usage.cache_creation_input_tokens) +
              count(usage.cache_read_input_tokens),
            output_tokens: count(usage.output_tokens),
            ...(typeof value.total_cost_usd === "number" ? { told_cost: value.total_cost_usd } : {}),
          },
        }),
    ...(value.is_error === true ? { error: cutText(value.result, 1_000) } : {}),
  };
}

/** `codex exec --json`: lines; the last `agent_message` is the answer, `turn.completed` has the usage. */
function readCodex(stdout: string): Told {
  let text: string | undefined;
  let usage: StepUsage | undefined;
  let error: string | undefined;
  for (const line of stdout.split("\n")) {
    let event: unknown;
    try {
      event = JSON.parse(line);
    } catch {
      continue;
    }
    if (!isFields(event)) continue;
    if (isFields(event.item) && event.item.type === "agent_message" && typeof event.item.text === "string")
      text = event.item.text;
    if (event.type === "turn.completed" && isFields(event.usage))
      usage = {
        input_tokens: count(event.usage.input_tokens),
        output_tokens: count(event.usage.output_tokens),
      };
    if (event.type === "turn.failed" && isFields(event.error) && typeof event.error.message === "string")
      error = cutText(event.error.message, 1_000);
  }
  return {
    text: text ?? stdout.trim(),
    ...(usage === undefined ? {} : { usage }),
    ...(error === undefined ? {} : { error }),
  };
}
