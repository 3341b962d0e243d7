import { html } from "hono/html";
import type { OwnerRun } from "../../durable/contract.ts";
import { allAgentNames } from "../db/agents.ts";
import { recentAudit } from "../db/audit.ts";
import { database } from "../db/client.ts";
import { type ProjectRow, projectsOfAccount } from "../db/projects.ts";
import { auditText } from "./audit-text.ts";
import { displayText } from "./forms.ts";
import { page } from "./layout.ts";
import type { Owner, WebContext } from "./session.ts";
import { time } from "./times.ts";

const ENTRIES = 200;
const RUNS_PER_PROJECT = 20;

/** `GET /account/activity`: what was run, and what was allowed, refused, revoked and changed. */
export async function activityPage(c: WebContext, owner: Owner) {
  const db = database(c.env.DB);
  const [entries, projects, agents] = await Promise.all([
    recentAudit(db, owner.account_id, ENTRIES),
    projectsOfAccount(db, owner.account_id),
    allAgentNames(db, owner.account_id),
  ]);
  const runs = await recentRuns(c, projects);
  return page(c, {
    title: "Activity",
    body: html`
<section aria-labelledby="runs"><h2 id="runs">Runs</h2>
${runs.length === 0 ? html`<div class="panel note">Nothing was run yet.</div>` : html`<ul class="rows log">${runs.map((run) => html`<li>${time(run.queued_at)} <span>${runText(run, agents)}</span></li>`)}</ul>`}
</section>
<section aria-labelledby="changes"><h2 id="changes">Access</h2>
<ul class="rows log">${entries.map((entry) => html`<li>${time(entry.at)} <bdi>${auditText(entry)}</bdi></li>`)}</ul>
</section>
<p class="hint">Times are UTC. Access is kept for a year; runs as long as each project’s settings say.</p>`,
  });
}

type ProjectRun = OwnerRun & { project: string };

async function recentRuns(c: WebContext, projects: ProjectRow[]): Promise<ProjectRun[]> {
  const lists = await Promise.all(
    projects.map(async ({ id, name }) => {
      const request = { before: null, limit: RUNS_PER_PROJECT, whole: false };
      const runs = await c.env.PROJECT_QUEUE.getByName(id).listRuns(request);
      return runs.map((run) => ({ ...run, project: name }));
    }),
  );
  return lists
    .flat()
    .sort((a, b) => b.queued_at - a.queued_at)
    .slice(0, ENTRIES);
}

const runText = (run: ProjectRun, agents: Map<string, string>) =>
  html`<bdi>${agents.get(run.agent_id) ?? "An agent"}</bdi> ran <span class="code">${run.slug}</span> in ${displayText(run.project)} <span class="tag">${run.state}</span>`;
