import { html } from "hono/html";
import { isLoopbackHost } from "../oauth/issuer.ts";
import type { WebContext } from "./session.ts";

type Html = ReturnType<typeof html>;

/** The hidden field that shows a form to be this browser's own. */
export const csrfField = (c: WebContext): Html =>
  html`<input type="hidden" name="csrf" value="${c.get("csrf")}">`;

/** The fields of a form that carries this browser's token; `undefined` if it does not, and nothing may be done then. */
export async function readForm(c: WebContext): Promise<FormData | undefined> {
  if (!(c.req.header("content-type") ?? "").toLowerCase().startsWith("application/x-www-form-urlencoded"))
    return undefined;
  const form = await c.req.formData();
  return equalTexts(text(form, "csrf"), c.get("csrf")) ? form : undefined;
}

/** A field's text, `""` if there is none. */
export function text(form: FormData, name: string): string {
  const value = form.get(name);
  return typeof value === "string" ? value : "";
}

/** Every value of a field. */
export const texts = (form: FormData, name: string): string[] =>
  form.getAll(name).filter((value) => typeof value === "string");

/** Whether two texts are the same, in a time that does not tell where they differ. */
function equalTexts(a: string, b: string): boolean {
  let difference = a.length ^ b.length;
  for (let i = 0; i < b.length; i++) difference |= a.charCodeAt(i) ^ b.charCodeAt(i);
  return difference === 0;
}

/** Where to go after signing in: a page of ours, or the account page. */
export function returnPath(value: string, issuer: string): string {
  if (!value.startsWith("/") || !URL.canParse(value, issuer)) return "/account";
  const url = new URL(value, issuer);
  const ours = url.origin === issuer && /^\/(?:authorize|account(?:\/[a-z0-9_/]+)?)$/.test(url.pathname);
  return ours ? url.pathname + url.search : "/account";
}

/** The form-action sources of a page whose form ends at this redirect address. Sources cannot name `[::1]`. */
export function formActionFor(redirectUri: string): string {
  const url = new URL(redirectUri);
  if (!isLoopbackHost(url.hostname)) return "'self' https:";
  return url.hostname === "[::1]" ? "'self' https: http:" : `'self' https: http://${url.hostname}:*`;
}

/** Text that a stranger chose, made safe to show: no control, direction or invisible characters, one line, at most `max` characters. */
export function displayText(value: string, max = 80): string {
  const line = value
    .toWellFormed()
    .replace(/\s+/g, " ")
    .replace(/[\p{Cc}\p{Cf}\p{Co}]/gu, "")
    .trim();
  const characters = [...line];
  return characters.length > max ? `${characters.slice(0, max - 1).join("")}…` : line;
}
