import { html } from "hono/html";
import { oneTimeCodeHash } from "../../protocol/one-time-code.ts";
import { systemClock } from "../../protocol/ports.ts";
import { database } from "../db/client.ts";
import { useOneTimeCode } from "../db/one-time-codes.ts";
import { issuerOf } from "../oauth/issuer.ts";
import { csrfField, readForm, returnPath, text } from "./forms.ts";
import { page, problem } from "./layout.ts";
import { endSession, startSession, type WebContext } from "./session.ts";

const CODE_CHARACTERS = 64;

/** `GET /sign-in`: a one-time link's code, from its fragment or pasted. */
export const signInPage = (c: WebContext) => form(c, c.req.query("return_to") ?? "");

function form(c: WebContext, returnTo: string, wrong?: string) {
  const owner = c.get("owner");
  return page(c, {
    title: "Sign in",
    script: "/assets/sign-in.js",
    status: wrong === undefined ? 200 : 400,
    body: html`
${wrong === undefined ? "" : html`<p role="alert">${wrong}</p>`}
${owner ? html`<p class="note">You are signed in as ${owner.account_name}. <a href="/account">Go to the account page</a></p>` : ""}
<form method="post" action="/sign-in" autocomplete="off">
${csrfField(c)}
<input type="hidden" name="return_to" value="${returnPath(returnTo, issuerOf(c.req.raw))}">
<label for="code">One-time code</label>
<input class="code" type="text" id="code" name="code" required maxlength="${CODE_CHARACTERS}" spellcheck="false" autocapitalize="characters">
<p class="note">It is in the sign-in link that the operator of this endpoint makes. A link works once, for 15 minutes.</p>
<button class="primary" id="sign-in">Sign in</button>
</form>`,
  });
}

/** `POST /sign-in`: the code for a session. */
export async function signIn(c: WebContext) {
  const fields = await readForm(c);
  if (!fields) return badForm(c);
  const code = text(fields, "code");
  const returnTo = text(fields, "return_to");
  const account =
    code.length > CODE_CHARACTERS
      ? undefined
      : await useOneTimeCode(database(c.env.DB), await oneTimeCodeHash(code), "sign_in", systemClock.now());
  if (account === undefined)
    return form(c, returnTo, "This code is wrong, used or expired. Ask the operator for a new link.");
  await startSession(c, account);
  return c.redirect(returnPath(returnTo, issuerOf(c.req.raw)), 303);
}

/** `POST /sign-out`. */
export async function signOut(c: WebContext) {
  if (!(await readForm(c))) return badForm(c);
  await endSession(c);
  return c.redirect("/sign-in", 303);
}

/** What a form without this browser's token gets. */
export const badForm = (c: WebContext) =>
  problem(
    c,
    403,
    "Form not accepted",
    "This form was not made for your browser, or is too old. Go back, reload the page and try again.",
  );
