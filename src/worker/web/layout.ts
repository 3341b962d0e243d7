import { html } from "hono/html";
import type { Html } from "./assets.ts";
import type { WebContext } from "./session.ts";

interface Page {
  title: string;
  body: Html;
  /** Scripts of ours. */
  scripts?: readonly string[];
  status?: 200 | 400 | 403 | 404 | 413 | 429 | 500 | 502;
}

/** A page in the site's frame. Everything put into it by `html` is escaped. */
export function page(
  c: WebContext,
  { title, body, scripts = [], status = 200 }: Page,
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
<body>
<header><a href="/account">Graph Relay</a></header>
<main>
<h1>${title}</h1>
${body}
</main>
</body>
</html>`,
    status,
  );
}

/** A page that says what went wrong and what to do. */
export const problem = (c: WebContext, status: Page["status"], title: string, what: string) =>
  page(c, { title, ...(status === undefined ? {} : { status }), body: html`<p role="alert">${what}</p>` });
