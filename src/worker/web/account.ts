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
import type { Html } from "./assets.ts";
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
${passkeys.length === 0 ? html`<p class="tip"><a href="#passkeys">Add a passkey</a>, so that you can sign in without the operator’s help.</p>` : ""}
<p>Agents connect to this address. Add it to Claude, ChatGPT, Cursor or any other MCP client:</p>
<p class="code copy">${origin}/mcp</p>
<section aria-labelledby="agents"><h2 id="agents">Connected agents</h2>
${list(agents, (agent) => agentCard(c, agent), html`None yet. Add the address above to an MCP client; it brings you back here to allow it.`)}
</section>
<section aria-labelledby="devices"><h2 id="devices">Laptops</h2>
${list(devices, (device) => deviceCard(c, device), html`None yet. Run this on the laptop that has your Graphs:<span class="code copy">npx graph-relay login ${origin}</span>`)}
<form class="actions" method="post" action="/account/enrolment-codes">${csrfField(c)}<button>Make an enrolment code</button></form>
<p class="hint">For a laptop or server without a browser.</p>
</section>
<section aria-labelledby="projects"><h2 id="projects">Projects</h2>
${list(projects, projectCard, html`None yet. Agents connect to projects, and laptops share Graphs with them: make one.`)}
<form method="post" action="/account/projects">${csrfField(c)}
<label for="new-project">New project</label>
<div class="line"><input type="text" id="new-project" name="name" required maxlength="${LIMITS.nameCharacters}"><button>Create project</button></div></form>
</section>
<section aria-labelledby="passkeys"><h2 id="passkeys">Passkeys</h2>
${list(passkeys, (passkey) => passkeyCard(c, passkey), html`None yet: only the operator’s one-time links let you in.`)}
<form method="post" action="/account/passkeys" data-passkey="create" data-options="/account/passkeys/options" hidden>
${csrfField(c)}<input type="hidden" name="credential">
<label for="passkey-name">Name of the new passkey</label>
<div class="line"><input type="text" id="passkey-name" name="name" required maxlength="${LIMITS.nameCharacters}" placeholder="Such as: phone"><button>Add a passkey</button></div></form>
</section>
${await providerSection(c, owner)}`,
  });
}

/** A list of rows, or what to say in its place. */
const list = <T>(things: readonly T[], row: (thing: T) => Html, none: Html) =>
  things.length === 0
    ? html`<div class="panel note">${none}</div>`
    : html`<ul class="rows">${things.map(row)}</ul>`;

/** Signing in through the operator's provider, where there is one. */
async function providerSection(c: WebContext, owner: Owner) {
  const provider = providerOf(c.env);
  if (!provider) return "";
  leadFormsTo(c, "'self' https:");
  const linked = await identitiesOfAccount(database(c.env.DB), owner.account_id);
  return html`<section aria-labelledby="provider"><h2 id="provider">Identity provider</h2>
${list(
  linked,
  ({
    issuer,
  }) => html`<li class="row split"><div><h3>${issuer}</h3><p class="meta">You can sign in through it.</p></div>
<form method="post" action="/account/provider/remove">${csrfField(c)}<input type="hidden" name="issuer" value="${issuer}">
<button class="danger small" aria-label="Unlink ${issuer}">Unlink</button></form></li>`,
  html`Not linked yet.`,
)}
${
  linked.some(({ issuer }) => issuer === provider.issuer)
    ? ""
    : html`<form class="actions" method="post" action="/account/provider">${csrfField(c)}<button>Link ${new URL(provider.issuer).hostname}</button></form>`
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
    narrow: true,
    body: html`
<p>Run this on the laptop within ten minutes:</p>
<p class="code copy">npx graph-relay login ${new URL(c.req.url).origin} --code</p>
<p id="asks">Give it this code when it asks. It works once and is not shown again.</p>
<output class="code copy" aria-labelledby="asks">${code}</output>
<p class="actions"><a class="button" href="/account">Back to the account page</a></p>`,
  });
}
