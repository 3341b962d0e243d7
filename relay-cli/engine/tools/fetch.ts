import * as z from "zod";
import { describeThrown } from "../error-text.ts";
import { EngineError } from "../errors.ts";
import type { EnginePorts } from "../ports.ts";
import type { Tool } from "./tool.ts";

const MAX_BYTES = 2_000_000;
const MAX_REDIRECTS = 5;
const TIMEOUT_MILLISECONDS = 60_000;

const input = z.strictObject({
  url: z.url({ protocol: /^https?$/ }).max(8_192),
  method: z.enum(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]).default("GET"),
  headers: z.record(z.string().regex(/^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/), z.string().max(8_192)).default({}),
  body: z.string().max(MAX_BYTES).optional(),
});
type Input = z.infer<typeof input>;

/** Sends one HTTP request. A redirect to another place is given back, not followed: it was not approved. */
export const fetchTool: Tool<Input> = {
  name: "fetch",
  description:
    "Sends an HTTP request and gives its status, headers and text. Does not follow redirects to another host.",
  input,
  defaultApproval: "ask",
  async prepare(asked, { ports, signal }) {
    const { username, password } = new URL(asked.url);
    if (username !== "" || password !== "")
      throw new EngineError("invalid_input", "fetch: no user name or password in the URL; send a header.");
    if (asked.body !== undefined && (asked.method === "GET" || asked.method === "HEAD"))
      throw new EngineError("invalid_input", `fetch: a ${asked.method} has no body.`);
    const headers = Object.entries(asked.headers).map(([name, value]) => `\n${name}: ${value}`);
    return {
      request: `${asked.method} ${asked.url}${headers.join("")}${asked.body === undefined ? "" : `\n\n${asked.body}`}`,
      run: () => send(ports, asked, signal),
    };
  },
};

async function send(ports: EnginePorts, asked: Input, runSignal: AbortSignal) {
  const limit = new AbortController();
  const cancel = ports.clock.after(TIMEOUT_MILLISECONDS, () => limit.abort());
  const signal = AbortSignal.any([runSignal, limit.signal]);
  try {
    const answer = await follow(ports, asked, signal);
    const { text, truncated } = await readText(answer);
    return {
      status: answer.status,
      url: answer.url === "" ? asked.url : answer.url,
      headers: Object.fromEntries(answer.headers),
      text,
      truncated,
    };
  } catch (error) {
    runSignal.throwIfAborted();
    const why = limit.signal.aborted ? "no answer in 60 s" : describeThrown(error).message;
    throw new EngineError("failed", `fetch ${new URL(asked.url).origin}: ${why}`);
  } finally {
    cancel();
  }
}

async function follow(
  ports: EnginePorts,
  { url, method, headers, body }: Input,
  signal: AbortSignal,
): Promise<Response> {
  const options: RequestInit = {
    method,
    headers,
    redirect: "manual",
    signal,
    ...(body === undefined ? {} : { body }),
  };
  let answer = await ports.fetch(url, options);
  let from = new URL(url);
  for (let i = 0; i < MAX_REDIRECTS && (method === "GET" || method === "HEAD"); i++) {
    const location = answer.status >= 300 && answer.status < 400 ? answer.headers.get("location") : null;
    if (location === null || !URL.canParse(location, from.href)) break;
    const to = new URL(location, from);
    const isUpgrade = from.protocol === "http:" && to.protocol === "https:" && from.hostname === to.hostname;
    if (to.origin !== from.origin && !isUpgrade) break;
    await answer.body?.cancel();
    answer = await ports.fetch(to.href, options);
    from = to;
  }
  return answer;
}

async function readText(answer: Response): Promise<{ text: string; truncated: boolean }> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of answer.body ?? []) {
    chunks.push(chunk.subarray(0, MAX_BYTES - size));
    size += chunk.length;
    if (size > MAX_BYTES) break; // leaving the loop cancels the body
  }
  return { text: Buffer.concat(chunks).toString("utf8"), truncated: size > MAX_BYTES };
}
