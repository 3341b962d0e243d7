import type { Transport } from "../../../relay-cli/relay/ports.ts";
import type { Break } from "../invariants/guarantees.ts";
import type { SimulatedLaptop } from "./laptop.ts";

/**
 * Reads along what a relay is told: which commands the server says no to, that it is only given what is
 * its own, and that no two passes over a project overlap. `mayDie` is called at both ends of each request.
 */
export function watchAnswers(
  transport: Transport,
  broken: Break,
  laptop: SimulatedLaptop,
  mayDie: () => void,
): Transport {
  const syncing = new Set<string>();
  return async (url, init) => {
    mayDie();
    const path = new URL(url).pathname;
    const project = path.endsWith("/sync")
      ? (JSON.parse(init.body ?? "") as { project_id: string }).project_id
      : undefined;
    if (project !== undefined) {
      if (syncing.has(project)) broken("one pass at a time", `${laptop.name} syncs ${project} twice at once`);
      syncing.add(project);
    }
    let response: Response;
    try {
      response = await transport(url, init);
    } finally {
      if (project !== undefined) syncing.delete(project);
    }
    mayDie();
    const text = await response
      .clone()
      .text()
      .catch(() => "");
    const body = parse(text);
    if (body === undefined) return response;
    const id = /\/commands\/([^/]+)\/(start|control)$/.exec(path);
    if (id?.[1] !== undefined && saysNo(body)) laptop.refused.add(id[1]);
    if (project !== undefined) checkCommands(body, project, laptop, broken);
    if (body.error === "device_removed") laptop.removed = true;
    return response;
  };
}

const saysNo = (body: Record<string, unknown>): boolean =>
  body.go === false || body.alive === false || body.cancel_requested === true;

function checkCommands(
  body: Record<string, unknown>,
  project: string,
  laptop: SimulatedLaptop,
  broken: Break,
): void {
  const own = new Set(laptop.facts.graphs.map((g) => g.id));
  const mine = laptop.account.projects.some((p) => p.id === project);
  for (const command of (body.commands ?? []) as { graph_session_id: string }[])
    if (!mine || !own.has(command.graph_session_id))
      broken(
        "answers are for their agent",
        `${laptop.name} was given a command for ${command.graph_session_id}`,
      );
}

function parse(text: string): Record<string, unknown> | undefined {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return undefined;
  }
}
