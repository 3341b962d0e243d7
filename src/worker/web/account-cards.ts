import { html } from "hono/html";
import { LIMITS } from "../../protocol/limits.ts";
import type { ConnectedAgent } from "../db/agents.ts";
import type { DeviceRow } from "../db/devices.ts";
import type { PasskeyRow } from "../db/passkeys.ts";
import type { ProjectRow } from "../db/projects.ts";
import { csrfField, displayText } from "./forms.ts";
import type { WebContext } from "./session.ts";

// The things on the account page, each with the buttons that end it.

export function agentCard(c: WebContext, agent: ConnectedAgent) {
  return html`<article class="card" aria-label="${agent.name}"><h3><bdi>${agent.name}</bdi></h3>
<dl><dt>May</dt><dd>${agent.scopes.includes("osfoundry:run") ? "read and run" : "read"}</dd>
<dt>Answers to</dt><dd>${agent.redirect_host}</dd>
<dt>Last used</dt><dd>${time(agent.last_used_at)}</dd></dl>
${agent.projects.length === 0 ? html`<p class="note">Connected to no project.</p>` : html`<ul>${agent.projects.map((project) => agentProject(c, agent, project))}</ul>`}
<form method="post" action="/account/agents/revoke">${csrfField(c)}<input type="hidden" name="agent_id" value="${agent.id}">
<button class="danger" aria-label="Revoke ${agent.name}">Revoke</button></form></article>`;
}

function agentProject(c: WebContext, agent: ConnectedAgent, project: ProjectRow) {
  const name = displayText(project.name);
  return html`<li><form class="inline" method="post" action="/account/agents/disconnect">${csrfField(c)}
<input type="hidden" name="agent_id" value="${agent.id}"><input type="hidden" name="project_id" value="${project.id}">
<span>${name}</span> <button aria-label="Disconnect ${agent.name} from ${name}">Disconnect</button></form></li>`;
}

export function deviceCard(c: WebContext, device: DeviceRow) {
  const name = displayText(device.name);
  return html`<article class="card" aria-label="${name}"><h3><bdi>${name}</bdi></h3>
<dl><dt>System</dt><dd>${displayText(device.platform)}</dd>
<dt>Version</dt><dd>${displayText(device.client_version)}</dd>
<dt>Last seen</dt><dd>${time(device.last_seen_at)}</dd>
<dt>Key fingerprint</dt><dd class="code">${device.thumbprint}</dd></dl>
<form method="post" action="/account/devices/remove">${csrfField(c)}<input type="hidden" name="device_id" value="${device.id}">
<button class="danger" aria-label="Remove ${name}">Remove</button></form></article>`;
}

export function projectCard(c: WebContext, project: ProjectRow) {
  const name = displayText(project.name);
  return html`<article class="card" aria-label="${name}"><h3><bdi>${name}</bdi></h3>
<p class="note code">${project.id}</p>
<form method="post" action="/account/projects/rename">${csrfField(c)}<input type="hidden" name="project_id" value="${project.id}">
<label for="name-${project.id}">Name</label>
<input type="text" id="name-${project.id}" name="name" value="${project.name}" required maxlength="${LIMITS.nameCharacters}">
<button aria-label="Rename ${name}">Rename</button></form></article>`;
}

export function passkeyCard(c: WebContext, passkey: PasskeyRow) {
  const name = displayText(passkey.name);
  return html`<article class="card" aria-label="${name}"><h3><bdi>${name}</bdi></h3>
<dl><dt>Added</dt><dd>${time(passkey.created_at)}</dd><dt>Last used</dt><dd>${time(passkey.last_used_at)}</dd></dl>
<form method="post" action="/account/passkeys/remove">${csrfField(c)}<input type="hidden" name="credential_id" value="${passkey.credential_id}">
<button class="danger" aria-label="Remove passkey ${name}">Remove</button></form></article>`;
}

/** A time in UTC, to the minute. */
export const time = (ms: number | null) => {
  if (ms === null) return "never";
  const iso = new Date(ms).toISOString();
  return html`<time datetime="${iso}">${iso.slice(0, 16).replace("T", " ")} UTC</time>`;
};
