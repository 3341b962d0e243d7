import type { Json } from "../contract.ts";
import { EngineError } from "../errors.ts";
import { toJsonText } from "./json-text.ts";
import { isStandardSchema, schemaAsJson } from "./meta.ts";
import { checkBySchema } from "./schema.ts";

/** What `agent()` gives a Graph. */
interface AgentResult {
  text: string;
  object?: unknown;
  toolCalls: { tool: string; input: Json }[];
  usage: { inputTokens: number; outputTokens: number; totalTokens: number };
  model: string;
}

/** Asks the engine for an agent, and checks its answer by the schema here, where a costly schema harms nobody else. */
export async function askAgent(
  ask: (prompt: string, options: { [key: string]: Json }) => Promise<Json>,
  prompt: unknown,
  options: unknown,
): Promise<AgentResult> {
  if (typeof prompt !== "string" || prompt === "") throw new TypeError("agent: the prompt must be a text.");
  if (typeof options !== "object" || options === null)
    throw new TypeError("agent: the options must be an object.");
  const { schema, ...others } = options as { schema?: unknown };
  const asJson = schemaAsJson(schema);
  if (schema !== undefined && asJson === undefined)
    throw new TypeError(
      "agent: this schema cannot be told as JSON Schema, which the model needs; give a JSON Schema or one that can.",
    );
  const sent = JSON.parse(
    toJsonText({ ...others, ...(asJson === undefined ? {} : { schema: asJson }) }, "agent: the options"),
  ) as { [key: string]: Json };
  // JSON Schema of the library's own dialect says nothing to a model.
  if (isStandardSchema(schema)) delete (sent.schema as { $schema?: unknown }).$schema;
  const answer = (await ask(prompt, sent)) as unknown as AgentResult;
  if (schema === undefined) return answer;
  const checked = await checkBySchema(schema, answer.object, "answer");
  if (checked.ok) return { ...answer, object: checked.value };
  throw new EngineError(
    "invalid_answer",
    `The answer of ${answer.model} does not fit the schema: ${checked.faults.join("; ")}`,
  );
}
