import { html } from "hono/html";
import type { ConnectedAgent } from "../db/agents.ts";
import type { DeviceRow } from "../db/devices.ts";
import type { PasskeyRow } from "../db/passkeys.ts";
import type { ProjectRow } from "../db/projects.ts";
import { csrfField, displayText } from "./forms.ts";
import type { WebContext } from "./session.ts";
import { ago } from "./times.ts";

// The things on the account page, each with the buttons that end it.

export function agentCard(c: WebContext, agent: ConnectedAgent) {
  return html`<li class="row" aria-label="${agent.name}"><div class="split"><div><h3><bdi>${agent.name}</bdi> <span class="tag">${agent.scopes.includes("osfoundry:run") ? "may read and run" : "may read"}</span></h3>
<p class="meta">Answers to ${agent.redirect_host} · ${last("used", agent.last_used_at)}</p></div>
<form method="post" action="/account/agents/revoke">${csrfField(c)}<input type="hidden" name="agent_id" value="${agent.id}">
<button class="danger small" aria-label="Revoke ${agent.name}">Revoke</button></form></div>
${agent.projects.length === 0 ? html`<p class="meta">Connected to no project.</p>` : html`<ul class="sub">${agent.projects.map((project) => agentProject(c, agent, project))}</ul>`}</li>`;
}

function agentProject(c: WebContext, agent: ConnectedAgent, project: ProjectRow) {
  const name = displayText(project.name);
  return html`<li class="split"><span>${name}</span><form method="post" action="/account/agents/disconnect">${csrfField(c)}
<input type="hidden" name="agent_id" value="${agent.id}"><input type="hidden" name="project_id" value="${project.id}">
<button class="plain" aria-label="Disconnect ${agent.name} from ${name}">Disconnect</button></form></li>`;
}

export function deviceCard(c: WebContext, device: DeviceRow) {
  const name = displayText(device.name);
  return html`<li class="row" aria-label="${name}"><div class="split"><div><h3><bdi>${name}</bdi></h3>
<p class="meta">${displayText(device.platform)} · version ${displayText(device.client_version)} · ${last("seen", device.last_seen_at)}</p>
<p class="meta">Key fingerprint <span class="code">${device.thumbprint}</span></p></div>
<form method="post" action="/account/devices/remove">${csrfField(c)}<input type="hidden" name="device_id" value="${device.id}">
<button class="danger small" aria-label="Remove ${name}">Remove</button></form></div></li>`;
}

export function projectCard(project: ProjectRow) {
  const name = displayText(project.name);
  return html`<li class="row split" aria-label="${name}"><div><h3><bdi>${name}</bdi></h3><p class="meta code">${project.id}</p></div>
<a class="button small" href="/account/projects/${project.id}" aria-label="Settings of ${name}">Settings</a></li>`;
}

export function passkeyCard(c: WebContext, passkey: PasskeyRow) {
  const name = displayText(passkey.name);
  return html`<li class="row split" aria-label="${name}"><div><h3><bdi>${name}</bdi></h3>
<p class="meta">Added ${ago(passkey.created_at)} · ${last("used", passkey.last_used_at)}</p></div>
<form method="post" action="/account/passkeys/remove">${csrfField(c)}<input type="hidden" name="credential_id" value="${passkey.credential_id}">
<button class="danger small" aria-label="Remove passkey ${name}">Remove</button></form></li>`;
}

const last = (what: "used" | "seen", at: number | null) =>
  at === null ? `not ${what} yet` : html`last ${what} ${ago(at)}`;
