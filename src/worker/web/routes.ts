import { Hono } from "hono";
import { bodyLimit } from "hono/body-limit";
import { csrf } from "hono/csrf";
import { LIMITS } from "../../protocol/limits.ts";
import type { Env } from "../env.ts";
import { accountPage, enrolmentCodePage } from "./account.ts";
import { createProject, removeDevice, rename, revokeAgent } from "./account-actions.ts";
import { SIGN_IN_SCRIPT, STYLE } from "./assets.ts";
import { authorize, authorizePage } from "./authorize.ts";
import { readForm } from "./forms.ts";
import { securePages } from "./headers.ts";
import { type Owner, type WebContext, type WebVariables, withOwner } from "./session.ts";
import { badForm, signIn, signInPage, signOut } from "./sign-in.ts";

/** What people see. */
export const webRoutes = new Hono<{ Bindings: Env; Variables: WebVariables }>();

for (const path of ["/", "/sign-in", "/sign-out", "/authorize", "/account", "/account/*"])
  webRoutes.use(path, securePages, bodyLimit({ maxSize: LIMITS.formBodyBytes }), csrf(), withOwner);
webRoutes.use("/assets/*", securePages);

const asset = (text: string, type: string) => () =>
  new Response(text, { headers: { "content-type": type, "cache-control": "public, max-age=300" } });
webRoutes.get("/assets/style.css", asset(STYLE, "text/css; charset=utf-8"));
webRoutes.get("/assets/sign-in.js", asset(SIGN_IN_SCRIPT, "text/javascript; charset=utf-8"));

webRoutes.get("/", (c) => c.redirect("/account", 303));
webRoutes.get("/sign-in", signInPage);
webRoutes.post("/sign-in", signIn);
webRoutes.post("/sign-out", signOut);
webRoutes.get("/authorize", authorizePage);
webRoutes.post("/authorize", authorize);
webRoutes.get("/account", async (c) => {
  const owner = c.get("owner");
  return owner ? accountPage(c, owner) : c.redirect("/sign-in", 303);
});

type Action = (c: WebContext, owner: Owner, form: FormData) => Response | Promise<Response>;
const ACTIONS: Record<string, Action> = {
  "/account/enrolment-codes": enrolmentCodePage,
  "/account/agents/revoke": revokeAgent,
  "/account/devices/remove": removeDevice,
  "/account/projects": createProject,
  "/account/projects/rename": rename,
};
for (const [path, action] of Object.entries(ACTIONS))
  webRoutes.post(path, async (c) => {
    const owner = c.get("owner");
    const form = await readForm(c);
    return owner && form ? action(c, owner, form) : badForm(c);
  });
