import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import type { OwnerBrowser } from "../../../scripts/lib/owner-browser.ts";
import type { Env } from "../../../src/worker/env.ts";
import worker from "../../../src/worker/index.ts";
import { ADDRESS, ORIGIN } from "./people.ts";

/** The Worker under other settings than the test's environment has. */
export const workerWith =
  (settings: Partial<Env>): typeof fetch =>
  async (input, init) => {
    const request = new Request(input, init);
    if (!request.headers.has(ADDRESS))
      request.headers.set(ADDRESS, `10.${crypto.getRandomValues(new Uint8Array(3)).join(".")}`);
    return worker.fetch(request, { ...(env as unknown as Env), ...settings }, createExecutionContext());
  };

/** The token that a page's forms carry. */
export const csrfOf = (page: string): string => /name="csrf" value="([^"]+)"/.exec(page)?.[1] ?? "";

/** Sends a form as a browser does. */
export const post = (
  browser: OwnerBrowser,
  path: string,
  fields: Record<string, string>,
  headers: Record<string, string> = { origin: ORIGIN },
): Promise<Response> =>
  browser.request(path, {
    method: "POST",
    headers: { "content-type": "application/x-www-form-urlencoded", ...headers },
    body: new URLSearchParams(fields).toString(),
  });

/** Sends a form of a page, with the page's token. */
export async function postFrom(
  browser: OwnerBrowser,
  page: string,
  path: string,
  fields: Record<string, string> = {},
): Promise<Response> {
  const csrf = csrfOf(await (await browser.request(page)).text());
  return post(browser, path, { csrf, ...fields });
}

/** What a page's error says. */
export const alertOf = (page: string): string => /<p role="alert">([^<]*)/.exec(page)?.[1] ?? "";
