import type { Budget } from "../budget.ts";
import type { EngineConfig, ProviderConfig } from "../config.ts";
import type { EngineEvent, Json } from "../contract.ts";
import { describeThrown } from "../error-text.ts";
import { EngineError } from "../errors.ts";
import { ownValue } from "../own.ts";
import type { EnginePorts } from "../ports.ts";
import type { Guard } from "../process/guard.ts";
import { type AgentAnswer, agentOptions, type StepUsage } from "./agent.ts";
import { runCommandAgent } from "./command-agent.ts";
import { readKey, redact } from "./keys.ts";
import { type AgentModel, findModel } from "./models.ts";
import { runSdkAgent } from "./sdk-agent.ts";

/** A tool as an agent gets it. */
export interface AgentTool {
  name: string;
  description: string;
  /** JSON Schema of its input. */
  schema: { [key: string]: Json };
  /** Does it, with everything that stands before that: the check, the owner's setting, the question. */
  use(input: Json): Promise<Json>;
}

/** What agents of one run share. */
export interface AgentSession {
  ports: EnginePorts;
  guard: Guard;
  config: EngineConfig;
  budget: Budget;
  /** The number of the next agent of the run. */
  nextNumber(): number;
  /** The tools of these names, without those the owner denied. Throws for a name that is no tool's. */
  toolsFor(names: readonly string[]): Promise<AgentTool[]>;
  emit(event: EngineEvent): void;
}

/** Runs one agent: refused if the token ceiling is reached, recorded from its start to its end. */
export async function runAgent(
  session: AgentSession,
  prompt: string,
  given: { [key: string]: Json },
  runSignal: AbortSignal,
): Promise<Json> {
  const { ports, guard, config, budget, emit } = session;
  budget.admit();
  const parsed = agentOptions.safeParse(given);
  if (!parsed.success)
    throw new EngineError(
      "invalid_input",
      `agent: ${parsed.error.issues.map((i) => `${i.path.join(".") || "options"}: ${i.message}`).join("; ")}`,
    );
  const options = parsed.data;
  const model = await findModel(ports, config, options.model);
  const tools = await session.toolsFor(options.tools);
  const key = model.kind === "http" ? await readKey(ports, guard, model.provider, model.config) : undefined;
  // Others may have used up the ceiling while this one was prepared.
  budget.admit();

  const agent = session.nextNumber();
  const began = ports.clock.elapsed();
  const used = { input_tokens: 0, output_tokens: 0 };
  const onStep = (usage: StepUsage): void => {
    used.input_tokens += usage.input_tokens;
    used.output_tokens += usage.output_tokens;
    budget.add({ ...usage, cost: costOf(model, usage) });
  };
  const limit = new AbortController();
  const cancelLimit = ports.clock.after(model.config.timeout_seconds * 1000, () =>
    limit.abort(new EngineError("failed", `${model.name} took more than ${model.config.timeout_seconds} s.`)),
  );
  const signal = AbortSignal.any([runSignal, limit.signal]);
  const finished = (answer: string, error?: string): void =>
    emit({
      type: "agent_finished",
      agent,
      answer,
      ...used,
      milliseconds: Math.round(ports.clock.elapsed() - began),
      ...(error === undefined ? {} : { error }),
    });

  emit({
    type: "agent_started",
    agent,
    model: model.name,
    prompt,
    ...(options.system === undefined ? {} : { system: options.system }),
  });
  try {
    const answer: AgentAnswer =
      model.kind === "http"
        ? await runSdkAgent({ model, key, prompt, options, tools, fetch: ports.fetch, signal, onStep })
        : await runCommandAgent(ports, guard, { model, prompt, options, signal, onStep });
    finished(answer.text);
    return {
      ...answer,
      model: model.name,
      usage: {
        inputTokens: used.input_tokens,
        outputTokens: used.output_tokens,
        totalTokens: used.input_tokens + used.output_tokens,
      },
    };
  } catch (thrown) {
    const error = asEngineError(thrown, model, signal, key);
    finished("", error.message);
    throw error;
  } finally {
    cancelLimit();
  }
}

/** What went wrong, in words, without keys. */
function asEngineError(
  thrown: unknown,
  model: AgentModel,
  signal: AbortSignal,
  key: string | undefined,
): EngineError {
  if (signal.aborted && signal.reason instanceof EngineError) return signal.reason;
  if (thrown instanceof EngineError) return thrown;
  const { message } = describeThrown(thrown);
  const { url, statusCode } = thrown as { url?: string; statusCode?: number };
  const at = typeof url === "string" ? ` at ${new URL(url).origin}` : "";
  const status = typeof statusCode === "number" ? ` (HTTP ${statusCode})` : "";
  return new EngineError("failed", redact(`${model.name}${at}: ${message}${status}`, [key]));
}

/** US dollars, as the provider told them or from its configured price; null if there is neither. */
function costOf({ config, model }: AgentModel, usage: StepUsage): number | null {
  if (usage.told_cost !== undefined) return usage.told_cost;
  const { prices }: Pick<ProviderConfig, "prices"> = config;
  const price = ownValue(prices, model ?? "*") ?? ownValue(prices, "*");
  if (price === undefined) return null;
  return (
    (usage.input_tokens * price.input_per_million + usage.output_tokens * price.output_per_million) /
    1_000_000
  );
}
