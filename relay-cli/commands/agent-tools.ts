import type { OAuthClientProvider } from "@modelcontextprotocol/client";
import { TOOL_ERRORS } from "../../src/protocol/errors.ts";
import { systemRandom } from "../../src/protocol/ports.ts";
import { CommandError } from "../exit-codes.ts";
import { createBackoff } from "../relay/backoff.ts";
import { printable } from "../relay/failure.ts";
import { systemClock } from "../relay/system.ts";
import { VERSION } from "../version.ts";

/** One call may wait this long; `get_graph_run` waits up to 50 s on the server. */
const CALL_MS = 75_000;
/** How long a call is tried again after lost answers. */
const PATIENCE_MS = 5 * 60_000;

/** The endpoint refused a call for good, in its own words. */
export class ToolRefusal extends CommandError {}

export interface AgentTools {
  /**
   * The structured answer. A lost answer is asked for again, which is safe: reads change nothing, and a run
   * is asked for with its key. Throws `ToolRefusal` if the endpoint refuses.
   */
  call(name: string, args: Record<string, unknown>): Promise<unknown>;
  close(): Promise<void>;
}

export async function openAgentTools(url: string, authProvider: OAuthClientProvider): Promise<AgentTools> {
  const { Client, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");

  async function connect() {
    const client = new Client({ name: "graph-relay", version: VERSION });
    await client.connect(new StreamableHTTPClientTransport(new URL(url), { authProvider }));
    return client;
  }

  let client = await patiently(connect);
  let lost = false;
  return {
    call: (name, args) =>
      patiently(async () => {
        if (lost) {
          await client.close().catch(() => {});
          client = await connect();
          lost = false;
        }
        try {
          const result = await client.callTool({ name, arguments: args }, { timeout: CALL_MS });
          if (!result.isError) return result.structuredContent;
          throw toolError(result.content);
        } catch (error) {
          lost = !(error instanceof CommandError);
          throw error;
        }
      }),
    close: () => client.close(),
  };
}

/** Tries again, with pauses, while the trouble is the network's or the service's. */
async function patiently<T>(body: () => Promise<T>): Promise<T> {
  const backoff = createBackoff(systemRandom);
  const until = systemClock.monotonic() + PATIENCE_MS;
  for (;;) {
    try {
      return await body();
    } catch (error) {
      if (error instanceof CommandError || !isPassing(error)) throw error;
      if (systemClock.monotonic() > until)
        throw new CommandError(
          "unreachable",
          `No answer came (${printable(String(error))}). The same command goes on where this one left off: nothing runs twice.`,
          error,
        );
      await systemClock.sleep(backoff.failed(systemClock.monotonic()));
    }
  }
}

/** JSON-RPC's code for a failure inside the server. */
const INTERNAL_ERROR = -32603;

/** Trouble that may pass by itself. A sign-in that is needed, or a request that is wrong, does not. */
export function isPassing(error: unknown): boolean {
  if (error instanceof BusyService) return true;
  const { status, code, data } = error as { status?: unknown; code?: unknown; data?: { status?: unknown } };
  const http = [status, data?.status, code].find((n) => typeof n === "number" && n >= 400 && n < 600);
  if (typeof http === "number") return http === 429 || http >= 500;
  return (
    error instanceof TypeError ||
    code === INTERNAL_ERROR ||
    code === "REQUEST_TIMEOUT" ||
    code === "CONNECTION_CLOSED"
  );
}

class BusyService extends Error {}

function toolError(content: unknown): Error {
  const text = (content as { type: string; text?: string }[])
    .map((part) => part.text ?? "")
    .join("\n")
    .trim();
  if (text.startsWith(TOOL_ERRORS.unavailable) || text.startsWith(TOOL_ERRORS.internal))
    return new BusyService(text);
  return new ToolRefusal("failed", text);
}
