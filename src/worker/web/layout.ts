import { html } from "hono/html";
import type { Html } from "./assets.ts";
import { csrfField } from "./forms.ts";
import type { WebContext } from "./session.ts";

interface Page {
  title: string;
  body: Html;
  /** Scripts of ours. */
  scripts?: readonly string[];
  status?: 200 | 400 | 403 | 404 | 413 | 429 | 500 | 502;
  /** A page that asks one thing, without ways to others. */
  narrow?: boolean;
}

const PAGES = [
  ["/account", "Account"],
  ["/account/activity", "Activity"],
  ["/account/data", "Your data"],
] as const;

const MARK = html`<svg width="22" height="22" viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="2.2" aria-hidden="true"><circle cx="5" cy="12" r="3"/><circle cx="19" cy="5.5" r="2.6"/><circle cx="19" cy="18.5" r="2.6"/><path d="M7.7 10.6 16.5 6.8M7.7 13.4l8.8 3.8"/></svg>`;

/** A page in the site's frame. Everything put into it by `html` is escaped. */
export function page(
  c: WebContext,
  { title, body, scripts = [], status = 200, narrow = false }: Page,
): Response | Promise<Response> {
  return c.html(
    html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>${title} – Graph Relay</title>
<link rel="stylesheet" href="/assets/style.css">
<link rel="icon" href="data:,">
${scripts.map((script) => html`<script src="${script}" defer></script>`)}
</head>
<body${narrow ? html` class="narrow"` : ""}>
<header class="bar"><div><a class="brand" href="/account">${MARK} Graph Relay</a>${narrow ? "" : ownersNav(c)}</div></header>
<main>
<h1>${title}</h1>
${body}
</main>
</body>
</html>`,
    status,
  );
}

/** The ways to the owner's pages, and out. */
function ownersNav(c: WebContext) {
  if (!c.get("owner")) return "";
  const here = (path: string) => (path === c.req.path ? html` aria-current="page"` : "");
  return html`<nav aria-label="Account">${PAGES.map(([path, name]) => html`<a href="${path}"${here(path)}>${name}</a>`)}
<form method="post" action="/sign-out">${csrfField(c)}<button class="plain">Sign out</button></form></nav>`;
}

/** A page that says what went wrong and what to do, and leads on. */
export const problem = (
  c: WebContext,
  status: Page["status"],
  title: string,
  what: string,
  next: { href: string; text: string } = { href: "/account", text: "Go to the account page" },
) =>
  page(c, {
    title,
    narrow: true,
    ...(status === undefined ? {} : { status }),
    body: html`<p role="alert">${what}</p><p><a class="button" href="${next.href}">${next.text}</a></p>`,
  });
