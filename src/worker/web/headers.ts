import type { Context, MiddlewareHandler } from "hono";

/**
 * What every page sends. `formAction` widens where its forms may lead: browsers hold the redirect after a
 * form to it as well, and a consent's ends at the client.
 */
function pageHeaders(formAction = "'self'"): Record<string, string> {
  return {
    "content-security-policy":
      "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; " +
      `form-action ${formAction}; base-uri 'none'; frame-ancestors 'none'`,
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    // Not `no-referrer`: a form's Origin header would be `null` then, and its CSRF check would fail.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=()",
    "cache-control": "no-store",
  };
}

/** Widens where this page's forms may lead. */
export function leadFormsTo(c: Context, formAction: string): void {
  c.header("content-security-policy", pageHeaders(formAction)["content-security-policy"] ?? "");
}

const HSTS = "max-age=63072000; includeSubDomains";

/** The headers above on every answer; a page may have set its own policy already. */
export const securePages: MiddlewareHandler = async (c, next) => {
  await next();
  for (const [name, value] of Object.entries(pageHeaders()))
    if (!c.res.headers.has(name)) c.res.headers.set(name, value);
  if (new URL(c.req.url).protocol === "https:") c.res.headers.set("strict-transport-security", HSTS);
};
