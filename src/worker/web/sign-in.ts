import { html } from "hono/html";
import { oneTimeCodeHash } from "../../protocol/one-time-code.ts";
import { systemClock } from "../../protocol/ports.ts";
import { accountName } from "../db/accounts.ts";
import { audit } from "../db/audit.ts";
import { database } from "../db/client.ts";
import { useOneTimeCode } from "../db/one-time-codes.ts";
import { issuerOf } from "../oauth/issuer.ts";
import { badForm } from "./answers.ts";
import { csrfField, readForm, returnPath, text } from "./forms.ts";
import { leadFormsTo } from "./headers.ts";
import { page } from "./layout.ts";
import { providerOf } from "./provider.ts";
import { endSession, startSession, type WebContext } from "./session.ts";
import { signUpMode } from "./sign-up.ts";

const CODE_CHARACTERS = 64;

/** `GET /sign-in`: with a passkey, through the operator's provider, or with a one-time link's code. */
export const signInPage = (c: WebContext) => signInForm(c, c.req.query("return_to") ?? "");

/** The sign-in page; `wrong` says what the last try had wrong. */
export function signInForm(c: WebContext, returnTo: string, wrong?: string) {
  const owner = c.get("owner");
  const back = returnPath(returnTo, issuerOf(c.req.raw));
  const provider = providerOf(c.env);
  if (provider) leadFormsTo(c, "'self' https:");
  return page(c, {
    title: "Sign in",
    scripts: ["/assets/passkey.js", "/assets/code.js"],
    status: wrong === undefined ? 200 : 400,
    narrow: true,
    body: html`
${wrong === undefined ? "" : html`<p role="alert">${wrong}</p>`}
${owner ? html`<p class="tip">You are signed in as ${owner.account_name}. <a href="/account">Go to the account page</a></p>` : ""}
<div class="panel">
<form method="post" action="/sign-in/passkey" data-passkey="get" data-options="/sign-in/passkey/options" hidden>
${csrfField(c)}
<input type="hidden" name="return_to" value="${back}">
<input type="hidden" name="credential">
<button class="primary wide">Sign in with a passkey</button>
<p class="or">or</p>
</form>
${
  provider
    ? html`<form method="post" action="/sign-in/provider">${csrfField(c)}<input type="hidden" name="return_to" value="${back}">
<button class="wide">Sign in through ${new URL(provider.issuer).hostname}</button></form><p class="or">or</p>`
    : ""
}
<form method="post" action="/sign-in" autocomplete="off">
${csrfField(c)}
<input type="hidden" name="return_to" value="${back}">
<label for="code">One-time code</label>
<input class="code" type="text" id="code" name="code" required maxlength="${CODE_CHARACTERS}" spellcheck="false" autocapitalize="characters" aria-describedby="code-hint">
<p class="hint" id="code-hint">It is in the sign-in link that the operator of this endpoint makes. A link works once, for 15 minutes.</p>
<div class="actions"><button class="wide" id="use-code">Sign in with the code</button></div>
</form>
</div>
${signUpMode(c.env) === "closed" ? "" : html`<p class="note">New here? <a href="/sign-up">Sign up</a></p>`}`,
  });
}

/** `POST /sign-in`: a one-time code for a session. */
export async function signIn(c: WebContext) {
  const fields = await readForm(c);
  if (!fields) return badForm(c);
  const code = text(fields, "code");
  const returnTo = text(fields, "return_to");
  const db = database(c.env.DB);
  const now = systemClock.now();
  const account =
    code.length > CODE_CHARACTERS
      ? undefined
      : await useOneTimeCode(db, await oneTimeCodeHash(code), "sign_in", now);
  if (account === undefined || (await accountName(db, account)) === undefined)
    return signInForm(c, returnTo, "This code is wrong, used or expired. Ask the operator for a new link.");
  await db.batch([audit(db, account, now, "signed_in", { how: "one-time link" })]);
  await startSession(c, account);
  return c.redirect(returnPath(returnTo, issuerOf(c.req.raw)), 303);
}

/** `POST /sign-out`. */
export async function signOut(c: WebContext) {
  if (!(await readForm(c))) return badForm(c);
  await endSession(c);
  return c.redirect("/sign-in", 303);
}
