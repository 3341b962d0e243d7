import type { CallToolResult } from "@modelcontextprotocol/server";
import { canonicalJson } from "../../../protocol/json.ts";
import { LIMITS } from "../../../protocol/limits.ts";
import type { RunInput } from "../../../protocol/tools.ts";
import { findSessionPlaces } from "../../db/sessions.ts";
import type { ToolContext } from "../context.ts";
import { runText } from "../next-step.ts";
import { enqueueOnce, type Placement, targetOf } from "../placement.ts";
import { toolError, toolResult } from "../results.ts";
import { runOutput } from "../run-view.ts";
import { findMisfits } from "../schema-fit.ts";

/** `run_graph_session`: one query finds the session, one call queues the run. */
export async function runGraphSession(input: RunInput, context: ToolContext): Promise<CallToolResult> {
  const argumentsJson = canonicalJson(input.arguments ?? {});
  if (argumentsJson.length > LIMITS.argumentsCharacters)
    return toolError(
      "invalid_arguments",
      `arguments: must be at most ${LIMITS.argumentsCharacters} characters of JSON (got ${argumentsJson.length}). Put large data where the desktop can read it and pass its place.`,
    );
  const places = await findSessionPlaces(context.db, context.auth.agent_id, input.graph_session_id);
  const schema = targetOf(places)?.arguments_schema;
  const misfits = schema ? findMisfits(schema, input.arguments ?? {}) : [];
  const placement = await enqueueOnce(
    places,
    {
      agent_id: context.auth.agent_id,
      graph_session_id: input.graph_session_id,
      arguments_json: argumentsJson,
      idempotency_key: input.idempotency_key,
      // The schema may have changed since the key's run was queued: a retry gets its ticket all the same.
      ...(misfits.length > 0 ? { repeat_only: true } : {}),
    },
    context,
  );
  if (!placement.ok && placement.error === "new_key")
    return toolError(
      "invalid_arguments",
      `The arguments do not fit the Graph's arguments_schema: ${misfits.join("; ")}. Nothing was queued; correct them and call again.`,
    );
  if (!placement.ok && placement.error === "access_removed") {
    // D1 has just named the agent and the session's device: the object was not told of one of them yet.
    await context.deliverAccess(places.map((place) => place.project_id));
    return toolError("unavailable");
  }
  return ticket(placement);
}

function ticket(answer: Exclude<Placement, { error: "new_key" | "access_removed" }>): CallToolResult {
  if (answer.ok) {
    const output = runOutput(answer.run);
    return toolResult(output, runText(output));
  }
  switch (answer.error) {
    case "not_shared":
      return toolError("session_not_found");
    case "key_conflict":
      return toolError(
        "key_conflict",
        `This idempotency_key already names run ${answer.run.command_id} (${answer.run.status}), which was asked for with another session or other arguments. ` +
          "For that run, call get_graph_run; for a new one, make up a new idempotency_key.",
        answer.run,
      );
    case "out_of_reach":
      return toolError(
        "key_conflict",
        `This idempotency_key already names run ${answer.command_id}, of another session or in a project that you no longer have access to. For a new run, make up a new idempotency_key.`,
        { command_id: answer.command_id },
      );
    case "queue_full": {
      const whose = answer.scope === "agent" ? "You have" : "The project has";
      return toolError(
        "queue_full",
        `${whose} ${answer.limit} runs queued, which is the limit. Nothing was queued. Wait for one to start, or cancel one with cancel_graph_run; then send the same call again.`,
        { scope: answer.scope, limit: answer.limit },
      );
    }
  }
}
