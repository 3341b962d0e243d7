import { html } from "hono/html";
import { LIMITS } from "../../protocol/limits.ts";
import { newOneTimeCode, oneTimeCodeHash } from "../../protocol/one-time-code.ts";
import { systemClock, systemRandom } from "../../protocol/ports.ts";
import { type ConnectedAgent, connectedAgents } from "../db/agents.ts";
import { database } from "../db/client.ts";
import { type DeviceRow, devicesOfAccount } from "../db/devices.ts";
import { insertOneTimeCode } from "../db/one-time-codes.ts";
import { type ProjectRow, projectsOfAccount } from "../db/projects.ts";
import { csrfField, displayText } from "./forms.ts";
import { page } from "./layout.ts";
import type { Owner, WebContext } from "./session.ts";

const ENROLMENT_MS = 10 * 60 * 1000;

/** `GET /account`: what is connected, and the buttons that end it. */
export async function accountPage(c: WebContext, owner: Owner) {
  const db = database(c.env.DB);
  const [agents, devices, projects] = await Promise.all([
    connectedAgents(db, owner.account_id),
    devicesOfAccount(db, owner.account_id),
    projectsOfAccount(db, owner.account_id),
  ]);
  const endpoint = `${new URL(c.req.url).origin}/mcp`;
  return page(c, {
    title: owner.account_name,
    body: html`
<p>Agents connect to <span class="code">${endpoint}</span></p>
<section aria-labelledby="agents"><h2 id="agents">Connected agents</h2>
${agents.length === 0 ? html`<p class="note">None yet. Add the address above to an MCP client.</p>` : agents.map((agent) => agentCard(c, agent))}
</section>
<section aria-labelledby="devices"><h2 id="devices">Laptops</h2>
${devices.length === 0 ? html`<p class="note">None yet. Run <span class="code">graph-relay login ${new URL(c.req.url).origin}</span> on one.</p>` : devices.map((device) => deviceCard(c, device))}
<form method="post" action="/account/enrolment-codes">${csrfField(c)}<button>Make an enrolment code</button></form>
<p class="note">For a laptop without a browser.</p>
</section>
<section aria-labelledby="projects"><h2 id="projects">Projects</h2>
${projects.map((project) => projectCard(c, project))}
<form method="post" action="/account/projects">${csrfField(c)}
<label for="new-project">New project</label>
<input type="text" id="new-project" name="name" required maxlength="${LIMITS.nameCharacters}">
<button>Create project</button></form>
</section>
<form method="post" action="/sign-out">${csrfField(c)}<button>Sign out</button></form>`,
  });
}

function agentCard(c: WebContext, agent: ConnectedAgent) {
  return html`<article class="card" aria-label="${agent.name}"><h3><bdi>${agent.name}</bdi></h3>
<dl><dt>Projects</dt><dd>${agent.projects.map((name) => displayText(name)).join(", ") || "none"}</dd>
<dt>May</dt><dd>${agent.scopes.includes("osfoundry:run") ? "read and run" : "read"}</dd>
<dt>Answers to</dt><dd>${agent.redirect_host}</dd>
<dt>Last used</dt><dd>${time(agent.last_used_at)}</dd></dl>
<form method="post" action="/account/agents/revoke">${csrfField(c)}<input type="hidden" name="agent_id" value="${agent.id}">
<button class="danger" aria-label="Revoke ${agent.name}">Revoke</button></form></article>`;
}

function deviceCard(c: WebContext, device: DeviceRow) {
  return html`<article class="card" aria-label="${device.name}"><h3><bdi>${displayText(device.name)}</bdi></h3>
<dl><dt>System</dt><dd>${displayText(device.platform)}</dd>
<dt>Version</dt><dd>${device.client_version}</dd>
<dt>Last seen</dt><dd>${time(device.last_seen_at)}</dd>
<dt>Key fingerprint</dt><dd class="code">${device.thumbprint}</dd></dl>
<form method="post" action="/account/devices/remove">${csrfField(c)}<input type="hidden" name="device_id" value="${device.id}">
<button class="danger" aria-label="Remove ${displayText(device.name)}">Remove</button></form></article>`;
}

function projectCard(c: WebContext, project: ProjectRow) {
  return html`<article class="card" aria-label="${project.name}"><h3><bdi>${displayText(project.name)}</bdi></h3>
<p class="note code">${project.id}</p>
<form method="post" action="/account/projects/rename">${csrfField(c)}<input type="hidden" name="project_id" value="${project.id}">
<label for="name-${project.id}">Name</label>
<input type="text" id="name-${project.id}" name="name" value="${project.name}" required maxlength="${LIMITS.nameCharacters}">
<button aria-label="Rename ${displayText(project.name)}">Rename</button></form></article>`;
}

/** A time in UTC, to the minute. */
const time = (ms: number | null) => {
  if (ms === null) return "never";
  const iso = new Date(ms).toISOString();
  return html`<time datetime="${iso}">${iso.slice(0, 16).replace("T", " ")} UTC</time>`;
};

/** `POST /account/enrolment-codes`: a code that is shown this once. */
export async function enrolmentCodePage(c: WebContext, owner: Owner) {
  const code = newOneTimeCode(systemRandom);
  await insertOneTimeCode(database(c.env.DB), {
    codeHash: await oneTimeCodeHash(code),
    purpose: "enrol_device",
    accountId: owner.account_id,
    expiresAt: systemClock.now() + ENROLMENT_MS,
  });
  return page(c, {
    title: "Enrolment code",
    body: html`
<p>Run this on the laptop within ten minutes, and give it this code when it asks. It works once and is not shown again.</p>
<p><label for="enrolment-code">Enrolment code</label><output class="code" id="enrolment-code">${code}</output></p>
<p class="code">graph-relay login ${new URL(c.req.url).origin} --code</p>
<p><a href="/account">Back to the account page</a></p>`,
  });
}
