import { html } from "hono/html";
import { LIMITS } from "../../protocol/limits.ts";
import { newOneTimeCode, oneTimeCodeHash } from "../../protocol/one-time-code.ts";
import { systemClock, systemRandom } from "../../protocol/ports.ts";
import { connectedAgents } from "../db/agents.ts";
import { audit } from "../db/audit.ts";
import { database } from "../db/client.ts";
import { devicesOfAccount } from "../db/devices.ts";
import { identitiesOfAccount } from "../db/identities.ts";
import { oneTimeCodeInsert } from "../db/one-time-codes.ts";
import { passkeysOfAccount } from "../db/passkeys.ts";
import { projectsOfAccount } from "../db/projects.ts";
import { withinLimit } from "../rate-limit.ts";
import { agentCard, deviceCard, passkeyCard, projectCard } from "./account-cards.ts";
import { tooMany } from "./answers.ts";
import { csrfField } from "./forms.ts";
import { leadFormsTo } from "./headers.ts";
import { page } from "./layout.ts";
import { providerOf } from "./provider.ts";
import type { Owner, WebContext } from "./session.ts";

const ENROLMENT_MS = 10 * 60 * 1000;

/** `GET /account`: what is connected, and the buttons that end it. */
export async function accountPage(c: WebContext, owner: Owner) {
  const db = database(c.env.DB);
  const [agents, devices, projects, passkeys] = await Promise.all([
    connectedAgents(db, owner.account_id),
    devicesOfAccount(db, owner.account_id),
    projectsOfAccount(db, owner.account_id),
    passkeysOfAccount(db, owner.account_id),
  ]);
  const { origin } = new URL(c.req.url);
  return page(c, {
    title: owner.account_name,
    scripts: ["/assets/passkey.js"],
    body: html`
<p>Agents connect to <span class="code">${origin}/mcp</span></p>
<nav aria-label="Account"><a href="/account/activity">Activity</a> <a href="/account/data">Your data</a></nav>
<section aria-labelledby="agents"><h2 id="agents">Connected agents</h2>
${agents.length === 0 ? html`<p class="note">None yet. Add the address above to an MCP client.</p>` : agents.map((agent) => agentCard(c, agent))}
</section>
<section aria-labelledby="devices"><h2 id="devices">Laptops</h2>
${devices.length === 0 ? html`<p class="note">None yet. Run <span class="code">graph-relay login ${origin}</span> on one.</p>` : devices.map((device) => deviceCard(c, device))}
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
<section aria-labelledby="passkeys"><h2 id="passkeys">Passkeys</h2>
${passkeys.length === 0 ? html`<p class="note">None yet: only the operator's one-time links let you in.</p>` : passkeys.map((passkey) => passkeyCard(c, passkey))}
<form method="post" action="/account/passkeys" data-passkey="create" data-options="/account/passkeys/options" hidden>
${csrfField(c)}<input type="hidden" name="credential">
<label for="passkey-name">Name of the passkey</label>
<input type="text" id="passkey-name" name="name" required maxlength="${LIMITS.nameCharacters}" placeholder="Phone">
<button>Add a passkey</button></form>
</section>
${await providerSection(c, owner)}
<form method="post" action="/sign-out">${csrfField(c)}<button>Sign out</button></form>`,
  });
}

/** Signing in through the operator's provider, where there is one. */
async function providerSection(c: WebContext, owner: Owner) {
  const provider = providerOf(c.env);
  if (!provider) return "";
  leadFormsTo(c, "'self' https:");
  const linked = await identitiesOfAccount(database(c.env.DB), owner.account_id);
  return html`<section aria-labelledby="provider"><h2 id="provider">Identity provider</h2>
${linked.map(
  ({
    issuer,
  }) => html`<form method="post" action="/account/provider/remove">${csrfField(c)}<input type="hidden" name="issuer" value="${issuer}">
<p>Linked to ${issuer}</p><button class="danger" aria-label="Unlink ${issuer}">Unlink</button></form>`,
)}
${
  linked.some(({ issuer }) => issuer === provider.issuer)
    ? ""
    : html`<form method="post" action="/account/provider">${csrfField(c)}<button>Link ${new URL(provider.issuer).hostname}</button></form>`
}
</section>`;
}

/** `POST /account/enrolment-codes`: a code that is shown this once. */
export async function enrolmentCodePage(c: WebContext, owner: Owner) {
  if (!(await withinLimit(c.env.LIMIT_ENROLMENT, `account:${owner.account_id}`))) return tooMany(c);
  const code = newOneTimeCode(systemRandom);
  const db = database(c.env.DB);
  const now = systemClock.now();
  await db.batch([
    oneTimeCodeInsert(db, {
      codeHash: await oneTimeCodeHash(code),
      purpose: "enrol_device",
      accountId: owner.account_id,
      expiresAt: now + ENROLMENT_MS,
    }),
    audit(db, owner.account_id, now, "enrolment_code_made", {}),
  ]);
  return page(c, {
    title: "Enrolment code",
    body: html`
<p>Run this on the laptop within ten minutes, and give it this code when it asks. It works once and is not shown again.</p>
<p><label for="enrolment-code">Enrolment code</label><output class="code" id="enrolment-code">${code}</output></p>
<p class="code">graph-relay login ${new URL(c.req.url).origin} --code</p>
<p><a href="/account">Back to the account page</a></p>`,
  });
}
