import { authorizationErrorRedirect } from "@cloudflare/workers-oauth-provider";
import { html } from "hono/html";
import type { Scope } from "../../protocol/tools.ts";
import { connectedProjectIds } from "../db/agents.ts";
import { database } from "../db/client.ts";
import { type ProjectRow, projectsOfAccount } from "../db/projects.ts";
import { type Authorization, readAuthorization } from "../oauth/authorization-request.ts";
import { isMetadataUrl } from "../oauth/client-metadata.ts";
import { allowAgent, allowDevice, noteRefusal, redirectHost } from "../oauth/consent.ts";
import { isLoopbackHost, issuerOf } from "../oauth/issuer.ts";
import { expandScopes } from "../oauth/scopes.ts";
import { authorizationServer, oauthEnv } from "../oauth/server.ts";
import { badForm } from "./answers.ts";
import type { Html } from "./assets.ts";
import { csrfField, displayText, formActionFor, readForm, text, texts } from "./forms.ts";
import { leadFormsTo } from "./headers.ts";
import { page, problem } from "./layout.ts";
import type { Owner, WebContext } from "./session.ts";

const SCOPE_TEXTS: Record<Scope, { may: string; what: string }> = {
  "osfoundry:read": {
    may: "See your Graphs",
    what: "Which Graphs you share with these projects, and the progress and results of the runs it starts",
  },
  "osfoundry:run": { may: "Start Graphs on your laptop", what: "And stop the runs it started" },
};

/** `GET /authorize`: the consent page, behind the sign-in. A stranger's request makes the server ask nobody anything. */
export async function authorizePage(c: WebContext) {
  const owner = c.get("owner");
  const query = new URL(c.req.url).searchParams;
  if (!owner) {
    const back = new URLSearchParams({ return_to: `/authorize?${query}` });
    return c.redirect(`/sign-in?${back}`, 303);
  }
  const answer = await read(c, query);
  return answer.kind === "ok" ? consentPage(c, owner, answer.authorization, query) : refusal(c, answer);
}

/** `POST /authorize`: Allow or Deny. The request is checked again in full: the form only repeats it. */
export async function authorize(c: WebContext) {
  const owner = c.get("owner");
  const form = await readForm(c);
  if (!owner || !form) return badForm(c);
  const query = new URLSearchParams(text(form, "request"));
  const answer = await read(c, query);
  if (answer.kind !== "ok") return refusal(c, answer);
  const { authorization } = answer;
  leadFormsTo(c, formActionFor(authorization.request.redirectUri));
  const device = { name: shown(query, "device_name"), thumbprint: thumbprintOf(query) };
  if (text(form, "decision") !== "allow") {
    await noteRefusal(c.env, authorization, owner.account_id, device.name);
    return c.redirect(
      authorizationErrorRedirect(authorization.request, "access_denied", "The owner said no"),
      303,
    );
  }
  const helpers = helpersOf(c);
  if (authorization.isDeviceLogin)
    return c.redirect(await allowDevice(c.env, helpers, authorization, owner.account_id, device), 303);

  const own = await projectsOfAccount(database(c.env.DB), owner.account_id);
  const ticked = new Set(texts(form, "project_id"));
  const projectIds = own.map((project) => project.id).filter((id) => ticked.has(id));
  const scopes = expandScopes(texts(form, "scope")).filter((scope) => authorization.scopes.includes(scope));
  if (projectIds.length === 0 || scopes.length === 0)
    return consentPage(c, owner, authorization, query, {
      text: "Tick at least one project and one permission, or deny.",
      ticked,
      scopes: new Set(scopes),
    });
  const to = await allowAgent(c.env, helpers, authorization, {
    accountId: owner.account_id,
    projectIds,
    scopes,
  });
  return c.redirect(to, 303);
}

const helpersOf = (c: WebContext) =>
  authorizationServer(issuerOf(c.req.raw)).getOAuthApi(oauthEnv(c.env, { mayFetchClients: true }));

async function read(c: WebContext, query: URLSearchParams) {
  const issuer = issuerOf(c.req.raw);
  return readAuthorization(query, issuer, helpersOf(c));
}

function refusal(
  c: WebContext,
  answer: { kind: "redirect"; to: string } | { kind: "page"; status: 400 | 502; what: string },
) {
  if (answer.kind === "redirect") return c.redirect(answer.to, 303);
  return problem(
    c,
    answer.status,
    "This request cannot be served",
    `${answer.what} Nothing was allowed. Close this page and connect again from the client.`,
  );
}

/** The fingerprint that the relay asks to be shown, if it is one. */
const thumbprintOf = (query: URLSearchParams): string => {
  const value = query.get("device_thumbprint") ?? "";
  return /^[A-Za-z0-9_-]{43}$/.test(value) ? value : "";
};

/** What a first try had wrong, and what was ticked in it. */
interface Wrong {
  text: string;
  ticked: ReadonlySet<string>;
  scopes: ReadonlySet<string>;
}

async function consentPage(
  c: WebContext,
  owner: Owner,
  authorization: Authorization,
  query: URLSearchParams,
  wrong?: Wrong,
) {
  leadFormsTo(c, formActionFor(authorization.request.redirectUri));
  const db = database(c.env.DB);
  const projects = await projectsOfAccount(db, owner.account_id);
  const body = authorization.isDeviceLogin
    ? deviceQuestion(query, projects)
    : agentQuestion(
        authorization,
        projects,
        wrong?.ticked ?? (await ticksFor(c, owner, authorization, projects)),
        wrong?.scopes ?? new Set(authorization.scopes),
      );
  return page(c, {
    title: authorization.isDeviceLogin ? "Connect this laptop?" : "Connect this agent?",
    narrow: true,
    status: wrong === undefined ? 200 : 400,
    body: html`
${wrong === undefined ? "" : html`<p role="alert">${wrong.text}</p>`}
<form method="post" action="/authorize">
${csrfField(c)}
<input type="hidden" name="request" value="${query.toString()}">
${body}
<div class="decide"><button name="decision" value="deny">Deny</button>
<button class="primary" name="decision" value="allow">Allow</button></div>
<p class="note">Signed in as ${owner.account_name}.</p>
</form>`,
  });
}

/** What is ticked beforehand: an only project, or the ones that the client is connected to already. The rest is the owner's to tick, one by one. */
async function ticksFor(
  c: WebContext,
  owner: Owner,
  { request }: Authorization,
  projects: ProjectRow[],
): Promise<ReadonlySet<string>> {
  if (projects.length === 1) return new Set(projects.map(({ id }) => id));
  return new Set(await connectedProjectIds(database(c.env.DB), owner.account_id, request.clientId));
}

function agentQuestion(
  { request, clientName, scopes }: Authorization,
  projects: ProjectRow[],
  ticked: ReadonlySet<string>,
  allowed: ReadonlySet<string>,
) {
  const host = redirectHost(request.redirectUri);
  const local = isLoopbackHost(host);
  const choice = (name: string, value: string, on: boolean, label: Html) =>
    html`<label class="choice"><input type="checkbox" name="${name}" value="${value}"${on ? html` checked` : ""}><span>${label}</span></label>`;
  return html`
<div class="panel">
<p class="who"><bdi>${displayText(clientName)}</bdi></p>
<p>asks to use your Graphs.</p>
<dl class="facts">
<dt>Identity</dt><dd>${identity(request.clientId)}</dd>
<dt>Answer goes to</dt><dd><strong>${host}</strong>${local ? html` <span class="note">(this computer)</span>` : ""}</dd>
</dl>
</div>
${local ? html`<p class="warning">The answer goes to a program on the computer that this browser runs on. Allow only if you have just started connecting it yourself.</p>` : ""}
<fieldset><legend>Projects it may use</legend>
${
  projects.length === 0
    ? html`<p class="tip">You have no project yet. <a href="/account#projects">Make one</a>, then connect again.</p>`
    : html`<div class="choices">${projects.map((project) => choice("project_id", project.id, ticked.has(project.id), html`${displayText(project.name)}`))}</div>`
}
</fieldset>
<fieldset><legend>What it may do there</legend>
<div class="choices">${scopes.map((scope) => choice("scope", scope, allowed.has(scope), html`<strong>${SCOPE_TEXTS[scope].may}</strong> <span class="note">${SCOPE_TEXTS[scope].what}</span>`))}</div>
</fieldset>
<p class="hint">Tool approvals on your laptop still apply. You can revoke this at any time on the account page.</p>`;
}

function identity(clientId: string) {
  if (!isMetadataUrl(clientId))
    return html`<span class="tag warn">Not verified</span> It chose this name itself.`;
  return html`<span class="tag ok">Verified</span> Published by <strong>${new URL(clientId).hostname}</strong>.`;
}

/** What a laptop says of itself, safe to show. */
const shown = (query: URLSearchParams, field: "device_name" | "device_platform"): string =>
  displayText(query.get(field) ?? "") || "not told";

function deviceQuestion(query: URLSearchParams, projects: ProjectRow[]) {
  return html`
<div class="panel">
<p class="who"><bdi>${shown(query, "device_name")}</bdi></p>
<p>asks to join your account as a laptop that runs Graphs.</p>
<dl class="facts">
<dt>System</dt><dd><bdi>${shown(query, "device_platform")}</bdi></dd>
<dt>Key fingerprint</dt><dd class="code">${thumbprintOf(query) || "not told"}</dd>
</dl>
</div>
<p>It will fetch the runs that your agents ask for, and run the Graphs that you share on it, in ${projects.length === 1 ? "your project" : `your ${projects.length} projects`}. What runs there is decided on the laptop.</p>
<p class="warning">Allow only if you have just started <span class="code">graph-relay login</span> yourself, and it shows this fingerprint.</p>`;
}
