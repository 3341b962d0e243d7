import { authorizationErrorRedirect } from "@cloudflare/workers-oauth-provider";
import { html } from "hono/html";
import type { Scope } from "../../protocol/tools.ts";
import { database } from "../db/client.ts";
import { type ProjectRow, projectsOfAccount } from "../db/projects.ts";
import { type Authorization, readAuthorization } from "../oauth/authorization-request.ts";
import { isMetadataUrl } from "../oauth/client-metadata.ts";
import { allowAgent, allowDevice, noteRefusal, redirectHost } from "../oauth/consent.ts";
import { isLoopbackHost, issuerOf } from "../oauth/issuer.ts";
import { expandScopes } from "../oauth/scopes.ts";
import { authorizationServer, oauthEnv } from "../oauth/server.ts";
import { badForm } from "./answers.ts";
import { csrfField, displayText, formActionFor, readForm, text, texts } from "./forms.ts";
import { leadFormsTo } from "./headers.ts";
import { page, problem } from "./layout.ts";
import type { Owner, WebContext } from "./session.ts";

const SCOPE_TEXTS: Record<Scope, string> = {
  "osfoundry:read":
    "See which Graphs you share with the ticked projects, and the progress and results of the runs it started",
  "osfoundry:run": "Start Graphs on your laptop, and stop the runs it started",
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
    return consentPage(
      c,
      owner,
      authorization,
      query,
      "Tick at least one project and one permission, or deny.",
    );
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

async function consentPage(
  c: WebContext,
  owner: Owner,
  authorization: Authorization,
  query: URLSearchParams,
  wrong?: string,
) {
  leadFormsTo(c, formActionFor(authorization.request.redirectUri));
  const projects = await projectsOfAccount(database(c.env.DB), owner.account_id);
  const body = authorization.isDeviceLogin
    ? deviceQuestion(query, projects)
    : agentQuestion(authorization, projects);
  return page(c, {
    title: authorization.isDeviceLogin ? "Connect this laptop?" : "Connect this agent?",
    status: wrong === undefined ? 200 : 400,
    body: html`
${wrong === undefined ? "" : html`<p role="alert">${wrong}</p>`}
<form method="post" action="/authorize">
${csrfField(c)}
<input type="hidden" name="request" value="${query.toString()}">
${body}
<p class="note">Signed in as ${owner.account_name}.</p>
<button class="primary" name="decision" value="allow">Allow</button>
<button name="decision" value="deny">Deny</button>
</form>`,
  });
}

function agentQuestion({ request, clientName, scopes }: Authorization, projects: ProjectRow[]) {
  return html`
<p><strong><bdi>${displayText(clientName)}</bdi></strong> asks to use your Graphs.</p>
<dl>
<dt>Identity</dt><dd>${identity(request.clientId)}</dd>
<dt>Answer goes to</dt><dd><strong>${redirectHost(request.redirectUri)}</strong></dd>
</dl>
${isLoopbackHost(redirectHost(request.redirectUri)) ? html`<p class="warning">The answer goes to a program on the computer that this browser runs on. Allow only if you have just started connecting it yourself.</p>` : ""}
<fieldset><legend>Projects it may use</legend>
${projects.map((project) => html`<label class="choice"><input type="checkbox" name="project_id" value="${project.id}" checked><span>${displayText(project.name)}</span></label>`)}
</fieldset>
<fieldset><legend>What it may do</legend>
${scopes.map((scope) => html`<label class="choice"><input type="checkbox" name="scope" value="${scope}" checked><span>${SCOPE_TEXTS[scope]}</span></label>`)}
</fieldset>
<p class="note">Tool approvals on your laptop still apply. You can revoke this at any time on the account page.</p>`;
}

function identity(clientId: string) {
  if (!isMetadataUrl(clientId)) return html`Not verified: it chose this name itself`;
  return html`Verified: published by <strong>${new URL(clientId).hostname}</strong>`;
}

/** What a laptop says of itself, safe to show. */
const shown = (query: URLSearchParams, field: "device_name" | "device_platform"): string =>
  displayText(query.get(field) ?? "") || "not told";

function deviceQuestion(query: URLSearchParams, projects: ProjectRow[]) {
  return html`
<p>A Graph Relay on a laptop asks to join your account.</p>
<dl>
<dt>Name</dt><dd><bdi>${shown(query, "device_name")}</bdi></dd>
<dt>System</dt><dd><bdi>${shown(query, "device_platform")}</bdi></dd>
<dt>Key fingerprint</dt><dd class="code">${thumbprintOf(query) || "not told"}</dd>
</dl>
<p>It will fetch the runs that your agents ask for, and run the Graphs that you share on it, in ${projects.length === 1 ? "your project" : `your ${projects.length} projects`}. What runs there is decided on the laptop.</p>
<p class="warning">Allow only if you have just started <span class="code">graph-relay login</span> yourself, and its fingerprint is the one above.</p>`;
}
