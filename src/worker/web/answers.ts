import { RATE_PERIOD_SECONDS } from "../rate-limit.ts";
import { problem } from "./layout.ts";
import type { WebContext } from "./session.ts";

// Refusals that several pages share. Scripts get theirs as JSON: what to say to the person.

const FORM =
  "This form was not made for your browser, or is too old. Go back, reload the page and try again.";

/** What a form without this browser's token gets. */
export const badForm = (c: WebContext) => problem(c, 403, "Form not accepted", FORM);

/** The same for a script. */
export const formError = (c: WebContext, status: 400 | 403, error = FORM) => c.json({ error }, status);

/** What too many calls get. */
export function tooMany(c: WebContext) {
  c.header("retry-after", String(RATE_PERIOD_SECONDS));
  if (c.req.path.endsWith("/options")) return c.json({ error: "Too many tries. Wait a minute." }, 429);
  return problem(c, 429, "Too many tries", "Wait a minute, then try again.");
}

/** What a step that needs a fresh sign-in gets when the last one is too long ago; `returnTo` is the page to repeat it on. */
export const signInAgain = (c: WebContext, returnTo = "/account") =>
  problem(
    c,
    403,
    "Sign in again",
    "This needs a sign-in of the last ten minutes. Sign in again, then repeat the step.",
    { href: `/sign-in?${new URLSearchParams({ return_to: returnTo })}`, text: "Sign in again" },
  );
