import type { LanguageModel, ToolSet } from "ai";
import type { Json } from "../contract.ts";
import { EngineError } from "../errors.ts";
import {
  type AgentAnswer,
  type AgentOptions,
  estimateTokens,
  findJson,
  type StepUsage,
  schemaInstruction,
} from "./agent.ts";
import type { AgentModel } from "./models.ts";
import type { AgentTool } from "./run-agent.ts";

/** Another try of one request to the model, on network trouble, 429 and 5xx; a Graph's own `retry` stands above it. */
const REQUEST_RETRIES = 1;

/** What the AI SDK is given for one agent. */
export interface SdkCall {
  model: Extract<AgentModel, { kind: "http" }>;
  key: string | undefined;
  prompt: string;
  options: AgentOptions;
  tools: readonly AgentTool[];
  fetch: typeof fetch;
  signal: AbortSignal;
  /** Called after each answer of the model, also of an agent that fails later. */
  onStep(usage: StepUsage): void;
}

/** Runs an agent on the Vercel AI SDK: the model answers, its tool calls are done, until it is through or out of steps. */
export async function runSdkAgent(call: SdkCall): Promise<AgentAnswer> {
  const { generateText, isStepCount, jsonSchema, NoObjectGeneratedError, Output, tool } = await import("ai");
  // They would go to the standard error of whoever has the engine.
  globalThis.AI_SDK_LOG_WARNINGS = false;
  const { options, prompt, signal } = call;
  const toolCalls: AgentAnswer["toolCalls"] = [];
  const tools: ToolSet = Object.fromEntries(
    call.tools.map(({ name, description, schema, use }) => [
      name,
      tool({
        description,
        inputSchema: jsonSchema<Json>(schema),
        execute: (input: Json) => {
          toolCalls.push({ tool: name, input });
          return use(input);
        },
      }),
    ]),
  );
  const { schema } = options;
  const givesSchema = call.model.config.kind === "anthropic" || call.model.config.structured_outputs;
  const system = [options.system, schema && !givesSchema ? schemaInstruction(schema) : undefined]
    .filter((part) => part !== undefined)
    .join("\n\n");

  const { text } = await generateText({
    model: await languageModel(call),
    ...(system === "" ? {} : { instructions: system }),
    prompt,
    ...(call.tools.length === 0 ? {} : { tools, stopWhen: isStepCount(options.maxSteps) }),
    ...(options.maxTokens === undefined ? {} : { maxOutputTokens: options.maxTokens }),
    ...(schema && givesSchema ? { output: Output.object({ schema: jsonSchema<Json>(schema) }) } : {}),
    maxRetries: REQUEST_RETRIES,
    abortSignal: signal,
    telemetry: { isEnabled: false },
    onStepEnd: ({ usage, text }) =>
      call.onStep({
        input_tokens: usage.inputTokens ?? estimateTokens(system + prompt),
        output_tokens: usage.outputTokens ?? estimateTokens(text),
      }),
  }).catch((error: unknown) => {
    // An answer in a code fence or among words is still an answer; `findJson` finds it.
    if (NoObjectGeneratedError.isInstance(error) && error.text !== undefined) return { text: error.text };
    throw error;
  });
  if (schema === undefined) return { text, toolCalls };
  const object = findJson(text);
  if (object === undefined)
    throw new EngineError("invalid_answer", "The model's answer holds no JSON, which its schema asks for.");
  return { text, object, toolCalls };
}

async function languageModel({ model, key, fetch }: SdkCall): Promise<LanguageModel> {
  const { config } = model;
  if (config.kind === "anthropic") {
    const { createAnthropic } = await import("@ai-sdk/anthropic");
    const { base_url } = config;
    return createAnthropic({
      fetch,
      apiKey: key ?? "",
      ...(base_url === undefined ? {} : { baseURL: base_url }),
    })(model.model);
  }
  const { createOpenAICompatible } = await import("@ai-sdk/openai-compatible");
  return createOpenAICompatible({
    fetch,
    name: model.provider,
    baseURL: config.base_url,
    supportsStructuredOutputs: config.structured_outputs,
    ...(key === undefined ? {} : { apiKey: key }),
  })(model.model);
}
