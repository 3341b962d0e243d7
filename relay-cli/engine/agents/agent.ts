import * as z from "zod";
import type { Json } from "../contract.ts";

const AGENT_LIMITS = {
  /** [default, most] */
  steps: [10, 100],
  outputTokens: 1_000_000,
  tools: 100,
} as const;

/** What a Graph may say with `agent()`. */
export const agentOptions = z.strictObject({
  model: z.string().min(1).max(200).optional(),
  system: z.string().optional(),
  /** Names of tools; `server__*` is every tool of an MCP server. */
  tools: z.array(z.string().min(1).max(200)).max(AGENT_LIMITS.tools).default([]),
  /** JSON Schema of the answer. */
  schema: z.record(z.string(), z.json()).optional(),
  maxSteps: z.number().int().min(1).max(AGENT_LIMITS.steps[1]).default(AGENT_LIMITS.steps[0]),
  /** Of one answer of the model. */
  maxTokens: z.number().int().min(1).max(AGENT_LIMITS.outputTokens).optional(),
});
export type AgentOptions = z.infer<typeof agentOptions>;

/** What an agent came to. */
export interface AgentAnswer {
  text: string;
  /** With a schema: the answer parsed. Whether it fits is looked at in the Graph's process. */
  object?: Json;
  toolCalls: { tool: string; input: Json }[];
}

/** Tokens that a step took. Where a provider does not tell, they are estimated at four characters each. */
export interface StepUsage {
  input_tokens: number;
  output_tokens: number;
  /** US dollars, if the provider tells. */
  told_cost?: number;
}

/** Tokens of a text, roughly: four characters each, as is usual for English. */
export const estimateTokens = (text: string): number => Math.ceil(text.length / 4);

/** What is put in front of an agent that cannot be given a schema in another way. */
export const schemaInstruction = (schema: { [key: string]: Json }): string =>
  `Answer with one JSON value that fits this JSON Schema, and nothing else:\n${JSON.stringify(schema)}`;

/** The JSON value in a model's answer, which may stand in a code fence or among words; undefined if there is none. */
export function findJson(text: string): Json | undefined {
  const fence = /```(?:json)?\s*\n([\s\S]*?)\n\s*```/.exec(text)?.[1];
  const first = text.search(/[[{]/);
  const last = Math.max(text.lastIndexOf("]"), text.lastIndexOf("}"));
  const candidates = [text, fence, first === -1 ? undefined : text.slice(first, last + 1)];
  for (const candidate of candidates) {
    if (candidate === undefined) continue;
    try {
      return JSON.parse(candidate) as Json;
    } catch {
      // Not this one.
    }
  }
  return undefined;
}
