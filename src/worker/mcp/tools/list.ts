import type { CallToolResult } from "@modelcontextprotocol/server";
import type { Presence } from "../../../durable/contract.ts";
import type { JsonObject } from "../../../protocol/json.ts";
import type { ListInput, ListOutput } from "../../../protocol/tools.ts";
import { listSessions, type SharedSession } from "../../db/sessions.ts";
import type { ToolContext } from "../context.ts";
import { desktopText } from "../next-step.ts";
import { toolError, toolResult } from "../results.ts";
import { desktopOf } from "../run-view.ts";

/** `list_graph_sessions`: one query, and one look into each project that has sessions to show. */
export async function listGraphSessions(input: ListInput, context: ToolContext): Promise<CallToolResult> {
  const { auth, db } = context;
  // One more than asked for tells whether there are more.
  const found = await listSessions(db, auth.agent_id, input.project_id, input.limit + 1);
  if (input.project_id !== undefined && found.projects.length === 0) return toolError("project_not_found");
  const shown = found.sessions.slice(0, input.limit);
  const presence = await presenceOf(shown, context);
  const output: ListOutput = {
    ...(input.project_id === undefined ? { projects: found.projects } : { project_id: input.project_id }),
    sessions: shown.map((session) => entry(session, presence)),
    ...(found.sessions.length > shown.length ? { more: true } : {}),
    next_step: nextStep(found.projects.length, shown.length, found.sessions.length > shown.length),
  };
  return toolResult(output, listText(output));
}

type PresenceByDevice = ReadonlyMap<string, Presence>;

async function presenceOf(
  sessions: readonly SharedSession[],
  context: ToolContext,
): Promise<PresenceByDevice> {
  const projects = [...new Set(sessions.map((s) => s.project_id))];
  const answers = await Promise.all(
    projects.map(async (project) => {
      const seen = await context.queues.call(project, (queue) =>
        queue.presence({ agent_id: context.auth.agent_id }),
      );
      return Object.entries(seen ?? {}).map(([device, p]) => [`${project} ${device}`, p] as const);
    }),
  );
  return new Map(answers.flat());
}

function entry(session: SharedSession, presence: PresenceByDevice): ListOutput["sessions"][number] {
  const { device_id, arguments_schema, ...shown } = session;
  const seen = presence.get(`${session.project_id} ${device_id}`);
  return {
    graph_session_id: shown.graph_session_id,
    project_id: shown.project_id,
    name: shown.name,
    description: shown.description,
    slug: shown.slug,
    version: shown.version,
    status: shown.status,
    ...(arguments_schema === null ? {} : { arguments_schema: JSON.parse(arguments_schema) as JsonObject }),
    desktop: desktopOf(seen ?? { online: false, last_seen_at: null }),
  };
}

function nextStep(projects: number, sessions: number, more: boolean): string {
  if (projects === 0)
    return "You are connected to no project. Ask the owner to connect you to one on their account page.";
  if (sessions === 0)
    return "Nothing is shared yet. Ask the owner to share a Graph with this project from their desktop.";
  const rest = more ? " There are more sessions: name a project_id or raise limit to see others." : "";
  return `Call run_graph_session with a graph_session_id, arguments that fit its arguments_schema, and a new idempotency_key.${rest}`;
}

function listText(output: ListOutput): string {
  const projects = output.projects?.map((p) => `Project ${p.project_id}: ${p.name}`) ?? [
    `Project ${output.project_id}`,
  ];
  const sessions = output.sessions.map((s) =>
    [
      `- ${s.name} (${s.slug} ${s.version}, ${s.status}): ${s.graph_session_id} in ${s.project_id}`,
      s.description === "" ? undefined : `  ${s.description}`,
      `  ${desktopText(s.desktop)}`,
      s.arguments_schema === undefined ? undefined : `  arguments: ${JSON.stringify(s.arguments_schema)}`,
    ]
      .filter((line) => line !== undefined)
      .join("\n"),
  );
  const heading = output.sessions.length === 0 ? "No sessions." : "Sessions:";
  return [...projects, heading, ...sessions, `Next: ${output.next_step}`].join("\n");
}
