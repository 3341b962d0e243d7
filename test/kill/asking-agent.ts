import { setTimeout as wait } from "node:timers/promises";
import { TOOL_ERRORS } from "../../src/protocol/errors.ts";
import { type CancelOutput, cancelOutput, type RunOutput, runOutput } from "../../src/protocol/tools.ts";

const GIVE_UP_MS = 60_000;
/** How long it waits for one answer. */
const PATIENCE_MS = 20_000;
/** What an agent may ask again with the same input. */
const AGAIN: readonly string[] = [TOOL_ERRORS.unavailable, TOOL_ERRORS.internal];

interface ToolAnswer {
  result?: {
    isError?: boolean;
    structuredContent?: unknown;
    content: { text?: string }[];
  };
}

/** An agent that asks again, with the same input, until it gets an answer. */
export class AskingAgent {
  readonly #url: string;
  readonly #token: string;

  constructor(origin: string, token: string) {
    this.#url = `${origin}/mcp`;
    this.#token = token;
  }

  async run(graph_session_id: string, idempotency_key: string, args: object): Promise<RunOutput> {
    const input = { graph_session_id, idempotency_key, arguments: args };
    return runOutput.parse(await this.#insist("run_graph_session", input));
  }

  async get(command_id: string): Promise<RunOutput> {
    return runOutput.parse(await this.#insist("get_graph_run", { command_id, wait_seconds: 0 }));
  }

  async cancel(command_id: string): Promise<CancelOutput> {
    return cancelOutput.parse(await this.#insist("cancel_graph_run", { command_id }));
  }

  async #insist(name: string, input: object): Promise<unknown> {
    const until = performance.now() + GIVE_UP_MS;
    for (;;) {
      const answer = await this.#call(name, input);
      if (!(answer instanceof Error)) return answer;
      if (performance.now() > until) throw answer;
      await wait(100);
    }
  }

  /** One call; an error is what may be asked again. */
  async #call(name: string, input: object): Promise<unknown> {
    let answer: ToolAnswer;
    try {
      const response = await fetch(this.#url, {
        method: "POST",
        signal: AbortSignal.timeout(PATIENCE_MS),
        headers: {
          "content-type": "application/json",
          accept: "application/json, text/event-stream",
          "mcp-protocol-version": "2025-11-25",
          authorization: `Bearer ${this.#token}`,
        },
        body: JSON.stringify({
          ...{ jsonrpc: "2.0", id: 1, method: "tools/call" },
          params: { name, arguments: input },
        }),
      });
      if (response.status >= 500) return new Error(`${name} answered ${response.status}`);
      answer = (await response.json()) as ToolAnswer;
    } catch (error) {
      return error instanceof Error ? error : new Error(String(error));
    }
    const text = answer.result?.content[0]?.text ?? JSON.stringify(answer);
    if (answer.result && !answer.result.isError) return answer.result.structuredContent;
    if (AGAIN.includes(text)) return new Error(text);
    throw new Error(`${name} was refused: ${text}`);
  }
}
