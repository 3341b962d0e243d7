import { once } from "node:events";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";

/** What a request to the model held. */
interface ModelRequest {
  model: string;
  messages: { role: string; content: unknown; tool_call_id?: string; tool_calls?: unknown }[];
  tools?: { function: { name: string; parameters: unknown } }[];
  response_format?: { type: string; json_schema?: unknown };
  max_tokens?: number;
}

/** What the model says: a text, tool calls, or an HTTP error. */
type ModelAnswer =
  | {
      text: string;
      usage?: { prompt_tokens: number; completion_tokens: number } | null;
      afterMilliseconds?: number;
    }
  | {
      calls: { name: string; input: unknown }[];
      usage?: { prompt_tokens: number; completion_tokens: number };
    }
  | { status: number; body: unknown };

/** An OpenAI-compatible server on loopback whose answers a test writes. */
export interface ModelServer {
  readonly url: string;
  readonly requests: { body: ModelRequest; headers: IncomingHttpHeaders }[];
  /** How many requests were under way at once, at most. */
  readonly mostAtOnce: () => number;
  answer: (request: ModelRequest, index: number) => ModelAnswer;
  /** Forgets the requests so far, and answers as at first. */
  reset(): void;
  close(): Promise<void>;
}

const USAGE = { prompt_tokens: 60, completion_tokens: 40 };

export async function startModelServer(
  answer: ModelServer["answer"] = () => ({ text: "ok" }),
): Promise<ModelServer> {
  const requests: ModelServer["requests"] = [];
  let atOnce = 0;
  let most = 0;
  const http = createServer(async (req, res) => {
    const reply = (status: number, body: unknown): void => {
      res.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
    };
    if (req.url === "/v1/models") return reply(200, { data: [{ id: "text-embedder" }, { id: "small" }] });
    let text = "";
    for await (const chunk of req) text += chunk;
    const body = JSON.parse(text) as ModelRequest;
    requests.push({ body, headers: req.headers });
    most = Math.max(most, ++atOnce);
    const said = server.answer(body, requests.length - 1);
    if ("text" in said && said.afterMilliseconds !== undefined)
      await new Promise((resolve) => setTimeout(resolve, said.afterMilliseconds));
    atOnce--;
    if ("status" in said) return reply(said.status, said.body);
    const message =
      "text" in said
        ? { role: "assistant", content: said.text }
        : {
            role: "assistant",
            content: null,
            tool_calls: said.calls.map(({ name, input }, i) => ({
              id: `call-${requests.length}-${i}`,
              type: "function",
              function: { name, arguments: JSON.stringify(input) },
            })),
          };
    reply(200, {
      id: "x",
      object: "chat.completion",
      created: 0,
      model: body.model,
      choices: [{ index: 0, message, finish_reason: "text" in said ? "stop" : "tool_calls" }],
      ...(said.usage === null ? {} : { usage: said.usage ?? USAGE }),
    });
  });
  http.listen(0, "127.0.0.1");
  await once(http, "listening");
  const server: ModelServer = {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}/v1`,
    requests,
    mostAtOnce: () => most,
    answer,
    reset() {
      requests.length = 0;
      most = 0;
      server.answer = answer;
    },
    async close() {
      http.closeAllConnections();
      http.close();
      await once(http, "close");
    },
  };
  return server;
}
