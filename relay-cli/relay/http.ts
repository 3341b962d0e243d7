import type * as z from "zod";
import { type Answer, failureOf, foreign, networkFailure, parseJson } from "./failure.ts";
import type { RelayClock, Transport } from "./ports.ts";

export interface HttpRequest<T> {
  method: "GET" | "POST" | "DELETE";
  url: string;
  /** Sent as JSON. */
  body?: unknown;
  token?: string;
  answer: z.ZodType<T>;
  /** The whole exchange, the answer's body included. */
  deadlineMs: number;
  /** Gives up early. */
  signal?: AbortSignal;
}

/** The largest answer is a sync's: 1,000,000 characters of arguments, each up to 6 bytes when escaped. */
const ANSWER_BYTES_MAX = 8_000_000;

/** One exchange. Every way it can go wrong is a value: it never throws and never outlives its deadline. */
export async function exchange<T>(
  ports: { clock: RelayClock; transport: Transport },
  request: HttpRequest<T>,
): Promise<Answer<T>> {
  const abort = new AbortController();
  const done = new AbortController();
  const giveUp = () => abort.abort(new Error("the relay ended before the answer came"));
  request.signal?.addEventListener("abort", giveUp);
  const late = ports.clock.sleep(request.deadlineMs, done.signal).then(() => {
    if (!done.signal.aborted) abort.abort(new Error(`no answer within ${request.deadlineMs / 1_000} s`));
  });
  try {
    if (request.signal?.aborted) giveUp();
    // A transport may be deaf to its signal; the deadline holds all the same.
    return await Promise.race([send(ports.transport, request, abort.signal), rejected(abort.signal)]);
  } catch (error) {
    return { ok: false, failure: networkFailure(abort.signal.aborted ? abort.signal.reason : error) };
  } finally {
    request.signal?.removeEventListener("abort", giveUp);
    done.abort();
    await late;
  }
}

async function send<T>(
  transport: Transport,
  request: HttpRequest<T>,
  signal: AbortSignal,
): Promise<Answer<T>> {
  const { method, url, body, token } = request;
  const response = await transport(url, {
    method,
    headers: {
      accept: "application/json",
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    // A token never follows a redirect to another host.
    redirect: "manual",
    signal,
  });
  const text = await readText(response);
  if (!response.ok) return { ok: false, failure: failureOf(response.status, response.headers, text) };
  const parsed = request.answer.safeParse(parseJson(text));
  return parsed.success ? { ok: true, value: parsed.data } : { ok: false, failure: foreign(response.status) };
}

async function readText(response: Response): Promise<string> {
  if (!response.body) return "";
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  let bytes = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    bytes += value.byteLength;
    if (bytes > ANSWER_BYTES_MAX) {
      await reader.cancel();
      throw new Error(`the answer is over ${ANSWER_BYTES_MAX} bytes`);
    }
    text += decoder.decode(value, { stream: true });
  }
}

function rejected(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    else signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}
