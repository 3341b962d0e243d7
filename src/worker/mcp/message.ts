import { isJsonObject, type JsonFault, type JsonObject } from "../../protocol/json.ts";

export type RequestId = string | number;

/** One JSON-RPC message, taken apart; fields that JSON-RPC does not know are left behind. */
export type Message =
  | { kind: "request"; id: RequestId; method: string; params?: JsonObject }
  | { kind: "notification"; method: string; params?: JsonObject }
  | { kind: "response" };

/** The codes of JSON-RPC 2.0 section 5.1, and of MCP 2026-07-28 `basic/index` that are answered here. */
export const CODES = {
  parseError: -32700,
  invalidRequest: -32600,
  invalidParams: -32602,
  internal: -32603,
} as const;

/** A parsed body as a message, or `undefined` where it is none. */
export function readMessage(body: unknown): Message | undefined {
  if (!isJsonObject(body) || body.jsonrpc !== "2.0") return undefined;
  const { method, params, id } = body;
  if (method === undefined) return "result" in body || "error" in body ? { kind: "response" } : undefined;
  if (typeof method !== "string" || (params !== undefined && !isJsonObject(params))) return undefined;
  const call = { method, ...(params === undefined ? {} : { params }) };
  if (!("id" in body)) return { kind: "notification", ...call };
  return isRequestId(id) ? { kind: "request", id, ...call } : undefined;
}

/** The id to answer a body with that is no valid message: its own where it has a usable one. */
export const echoableId = (body: unknown): RequestId | null =>
  isJsonObject(body) && isRequestId(body.id) ? body.id : null;

const isRequestId = (id: unknown): id is RequestId => typeof id === "string" || Number.isSafeInteger(id);

/** A JSON-RPC error as an HTTP answer. */
export function errorResponse(status: number, code: number, message: string, id: RequestId | null): Response {
  return Response.json({ jsonrpc: "2.0", id, error: { code, message } }, { status });
}

/** What the JSON of a request would not keep, as a sentence. */
export const faultText = (fault: JsonFault): string =>
  `The JSON ${fault.text} (at character ${fault.at} of the request).`;
