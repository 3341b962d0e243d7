import { html } from "hono/html";
import { systemClock } from "../../protocol/ports.ts";
import { deleteAccount } from "../account-deletion.ts";
import { exportAccount } from "../account-export.ts";
import { audit } from "../db/audit.ts";
import { database } from "../db/client.ts";
import { signInAgain } from "./answers.ts";
import { csrfField, text } from "./forms.ts";
import { page, problem } from "./layout.ts";
import { endSession, isFresh, type Owner, type WebContext } from "./session.ts";

/** `GET /account/data`: take everything along, or leave. */
export const dataPage = (c: WebContext, owner: Owner) =>
  page(c, {
    title: "Your data",
    body: html`
${isFresh(owner) ? "" : html`<p class="tip">Both of these need a sign-in of the last ten minutes. <a href="/sign-in?return_to=/account/data">Sign in again</a></p>`}
<section class="panel" aria-labelledby="export"><h2 id="export">Export</h2>
<p>One JSON file with everything held about this account: projects, laptops, agents, shared sessions, the activity list, and every run with its arguments and result.</p>
<form class="actions" method="post" action="/account/export">${csrfField(c)}<button>Export as JSON</button></form></section>
<section class="panel" aria-labelledby="delete"><h2 id="delete">Delete the account</h2>
<p>Every agent and laptop is cut off at once, queued runs are dropped, and everything held here is deleted for good. What is on your laptops stays there.</p>
<form method="post" action="/account/delete" autocomplete="off">${csrfField(c)}
<label for="confirm">Type the account’s name, ${owner.account_name}, to confirm</label>
<input type="text" id="confirm" name="confirm" required>
<div class="actions"><button class="danger">Delete the account</button></div></form></section>`,
  });

/** `POST /account/export`. */
export async function exportData(c: WebContext, owner: Owner) {
  if (!isFresh(owner)) return signInAgain(c, "/account/data");
  const db = database(c.env.DB);
  await db.batch([audit(db, owner.account_id, systemClock.now(), "data_exported", {})]);
  const pieces = exportAccount(c.env, owner.account_id);
  const encoder = new TextEncoder();
  const body = new ReadableStream({
    async pull(controller) {
      const { done, value } = await pieces.next();
      if (done) controller.close();
      else controller.enqueue(encoder.encode(value));
    },
  });
  return new Response(body, {
    headers: {
      "content-type": "application/json; charset=utf-8",
      "content-disposition": 'attachment; filename="graph-relay-export.json"',
    },
  });
}

/** `POST /account/delete`. */
export async function deleteData(c: WebContext, owner: Owner, form: FormData) {
  if (!isFresh(owner)) return signInAgain(c, "/account/data");
  if (text(form, "confirm").trim() !== owner.account_name.trim())
    return problem(
      c,
      400,
      "Not deleted",
      "The name you typed is not the account’s. Go back and type it again.",
      { href: "/account/data", text: "Go back" },
    );
  await endSession(c);
  await deleteAccount(c.env, owner.account_id);
  return page(c, {
    title: "Account deleted",
    narrow: true,
    body: html`<p>Everything held about it here is gone.</p><p class="actions"><a class="button" href="/sign-in">Sign in with another account</a></p>`,
  });
}
