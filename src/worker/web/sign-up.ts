import { html } from "hono/html";
import * as z from "zod";
import { accountId } from "../../protocol/ids.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { oneTimeCodeHash } from "../../protocol/one-time-code.ts";
import { systemClock, systemRandom } from "../../protocol/ports.ts";
import { deliverAccess } from "../access.ts";
import { accountInsert, newAccountId } from "../db/accounts.ts";
import { audit } from "../db/audit.ts";
import { type Database, database } from "../db/client.ts";
import { invitationStands, useInvitation } from "../db/invitations.ts";
import { passkeyInsert } from "../db/passkeys.ts";
import type { Env } from "../env.ts";
import { issuerOf } from "../oauth/issuer.ts";
import { badForm, formError } from "./answers.ts";
import { beginChallenge, endChallenge } from "./challenges.ts";
import { csrfField, displayText, readForm, text } from "./forms.ts";
import { page, problem } from "./layout.ts";
import { challengeOf, creationOptions, newPasskey, readCredential } from "./passkeys.ts";
import { startSession, type WebContext } from "./session.ts";

const NOT_INVITED = "This invitation is wrong, used or expired. Ask the operator for a new one.";

/** Who may make an account: the operator's setting. Anything but the three words counts as by invitation. */
export function signUpMode(env: Env): "open" | "invite" | "closed" {
  const mode = env.SIGNUP_MODE;
  return mode === "open" || mode === "closed" ? mode : "invite";
}

/** `GET /sign-up`: a name and a passkey, and an invitation where one is needed. */
export function signUpPage(c: WebContext, wrong?: string) {
  const mode = signUpMode(c.env);
  if (mode === "closed")
    return problem(c, 403, "Sign-up is closed", "This endpoint takes no new accounts. Ask its operator.");
  return page(c, {
    title: "Sign up",
    scripts: ["/assets/passkey.js", "/assets/code.js"],
    status: wrong === undefined ? 200 : 400,
    narrow: true,
    body: html`
${wrong === undefined ? "" : html`<p role="alert">${wrong}</p>`}
<noscript><p role="alert">Passkeys need JavaScript. Ask the operator for a one-time sign-in link instead.</p></noscript>
<form class="panel" method="post" action="/sign-up" data-passkey="create" data-options="/sign-up/options" autocomplete="off" hidden>
${csrfField(c)}
<input type="hidden" name="credential">
<label for="name">Your name</label>
<input type="text" id="name" name="name" required maxlength="${LIMITS.nameCharacters}" autocomplete="name">
${
  mode === "invite"
    ? html`<label for="code">Invitation</label>
<input class="code" type="text" id="code" name="code" required maxlength="64" spellcheck="false" autocapitalize="characters" aria-describedby="code-hint">
<p class="hint" id="code-hint">It is in the link that the operator of this endpoint makes for you.</p>`
    : ""
}
<div class="actions"><button class="primary wide" id="use-code">Sign up with a passkey</button></div>
<p class="hint">A passkey is your fingerprint, face or screen lock, kept by your device. There is no password.</p>
</form>
<p class="note">Signed up already? <a href="/sign-in">Sign in</a></p>`,
  });
}

const pending = z.object({ id: accountId, name: z.string(), invitation: z.string().nullable() });

/** `POST /sign-up/options`: a challenge for the passkey of an account to be. */
export async function signUpOptions(c: WebContext) {
  const form = await readForm(c);
  if (!form || signUpMode(c.env) === "closed") return formError(c, 403);
  const name = displayText(text(form, "name"), LIMITS.nameCharacters);
  if (!name) return formError(c, 400, "Give a name.");
  const invitation =
    signUpMode(c.env) === "invite" ? await oneTimeCodeHash(text(form, "code").slice(0, 64)) : null;
  if (invitation !== null && !(await invitationStands(database(c.env.DB), invitation, systemClock.now())))
    return formError(c, 400, NOT_INVITED);
  const id = newAccountId(systemRandom);
  const options = await creationOptions(issuerOf(c.req.raw), { id, name }, []);
  await beginChallenge(c, "sign_up", options.challenge, { value: { id, name, invitation } });
  return c.json(options);
}

/** `POST /sign-up`: the passkey for an account and a session. */
export async function signUp(c: WebContext) {
  const form = await readForm(c);
  if (!form) return badForm(c);
  const answer = readCredential(text(form, "credential"));
  const challenge = answer && challengeOf(answer);
  const begun = challenge ? await endChallenge(c, "sign_up", challenge) : undefined;
  if (!answer || !challenge || !begun) return signUpPage(c, "This passkey was not accepted. Try again.");
  const made = await newPasskey(answer, challenge, issuerOf(c.req.raw));
  if (!made) return signUpPage(c, "This passkey was not accepted. Try again.");
  const { id, name, invitation } = pending.parse(begun.value);
  const db = database(c.env.DB);
  const now = systemClock.now();
  if (!(await mayEnter(c.env, db, invitation, now))) return signUpPage(c, NOT_INVITED);
  const account = accountInsert(db, { id, name, now }, systemRandom);
  await db.batch([
    ...account.statements,
    passkeyInsert(db, { ...made, account_id: id, name: "First passkey", created_at: now }),
    audit(db, id, now, "signed_up", { how: "passkey" }),
  ]);
  await deliverAccess(c.env, [account.projectId]);
  await startSession(c, id);
  return c.redirect("/account", 303);
}

/** The operator's setting as it is now, and the invitation used up where one is needed. */
async function mayEnter(env: Env, db: Database, invitation: string | null, now: number): Promise<boolean> {
  const mode = signUpMode(env);
  if (mode !== "invite") return mode === "open";
  return invitation !== null && useInvitation(db, invitation, now);
}
