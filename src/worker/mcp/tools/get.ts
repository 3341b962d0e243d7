import type { CallToolResult } from "@modelcontextprotocol/server";
import { projectOfCommand } from "../../../protocol/ids.ts";
import type { CancelInput, CancelOutput, GetInput } from "../../../protocol/tools.ts";
import { isConnected } from "../../db/sessions.ts";
import type { ToolContext } from "../context.ts";
import { runText } from "../next-step.ts";
import { toolError, toolResult } from "../results.ts";
import { runOutput } from "../run-view.ts";

/** `get_graph_run`: straight to the object that the id names, waiting there. */
export async function getGraphRun(input: GetInput, context: ToolContext): Promise<CallToolResult> {
  const project = await reachableProject(input.command_id, context);
  if (project === undefined) return toolError("run_not_found");
  const deadline = context.clock.now() + input.wait_seconds * 1000;
  const run = await context.queues.call(project, (queue) =>
    queue.getRun({
      agent_id: context.auth.agent_id,
      command_id: input.command_id,
      wait_ms: Math.max(0, deadline - context.clock.now()),
    }),
  );
  if (run === undefined) return toolError("run_not_found");
  const output = runOutput(run);
  return toolResult(output, runText(output));
}

/** `cancel_graph_run`: straight to the object that the id names. */
export async function cancelGraphRun(input: CancelInput, context: ToolContext): Promise<CallToolResult> {
  const project = await reachableProject(input.command_id, context);
  if (project === undefined) return toolError("run_not_found");
  const answer = await context.queues.call(project, (queue) =>
    queue.cancel({ agent_id: context.auth.agent_id, command_id: input.command_id }),
  );
  if (answer === undefined) return toolError("run_not_found");
  const output: CancelOutput = { ...runOutput(answer.run), cancel: answer.cancel };
  return toolResult(output, runText(output));
}

/**
 * The project a command's id routes to, if the agent may ask there: its token names the project, or (it was
 * connected after the token was given) D1 does. An object is only ever opened for a project that exists.
 */
async function reachableProject(commandId: string, { auth, db }: ToolContext): Promise<string | undefined> {
  const project = projectOfCommand(commandId);
  if (project === undefined || auth.projects.includes(project)) return project;
  return (await isConnected(db, auth.agent_id, project)) ? project : undefined;
}
