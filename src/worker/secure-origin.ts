import type { MiddlewareHandler } from "hono";
import { isSecureOrigin } from "./oauth/issuer.ts";

/** Serves nothing in the clear but on the machine itself: a page is sent to https, a call that may carry a secret is refused. */
export const secureOnly: MiddlewareHandler = async (c, next) => {
  const url = new URL(c.req.url);
  if (isSecureOrigin(url.origin)) return next();
  if (c.req.method !== "GET" && c.req.method !== "HEAD")
    return c.json({ error: "invalid_request", error_description: "Use https" }, 403);
  url.protocol = "https:";
  return c.redirect(url.href, 308);
};
