import { Hono } from "hono";
import { bodyLimit } from "hono/body-limit";
import { csrf } from "hono/csrf";
import { LIMITS } from "../../protocol/limits.ts";
import type { Env } from "../env.ts";
import { addressKey, withinLimit } from "../rate-limit.ts";
import { accountPage, enrolmentCodePage } from "./account.ts";
import { disconnectAgent, removeDevice, revokeAgent } from "./account-actions.ts";
import { dataPage, deleteData, exportData } from "./account-data.ts";
import { addPasskey, addPasskeyOptions, dropPasskey } from "./account-passkeys.ts";
import {
  createProject,
  deleteProject,
  projectPage,
  renameProject,
  saveSettings,
} from "./account-projects.ts";
import { activityPage } from "./activity.ts";
import { badForm, tooMany } from "./answers.ts";
import { CODE_SCRIPT, PASSKEY_SCRIPT } from "./assets.ts";
import { authorize, authorizePage } from "./authorize.ts";
import { readForm } from "./forms.ts";
import { securePages } from "./headers.ts";
import { passkeySignIn, passkeySignInOptions } from "./passkey-sign-in.ts";
import { linkProvider, providerCallback, providerSignIn, unlinkProvider } from "./provider-sign-in.ts";
import { type Owner, type WebContext, type WebVariables, withOwner } from "./session.ts";
import { signIn, signInPage, signOut } from "./sign-in.ts";
import { signUp, signUpOptions, signUpPage } from "./sign-up.ts";
import { STYLE } from "./style.ts";

/** What people see. */
export const webRoutes = new Hono<{ Bindings: Env; Variables: WebVariables }>();

// `/x/*` is `/x` too.
const PAGES = ["/", "/sign-in/*", "/sign-up/*", "/sign-out", "/authorize", "/account/*"];
for (const path of PAGES)
  webRoutes.use(path, securePages, bodyLimit({ maxSize: LIMITS.formBodyBytes }), csrf(), withOwner);
webRoutes.use("/assets/*", securePages);

// Whatever could be guessed at is counted by address before anything is looked up.
for (const path of ["/sign-in/*", "/sign-up/*"])
  webRoutes.on(["POST"], path, async (c, next) => {
    if (!(await withinLimit(c.env.LIMIT_SIGN_IN, addressKey(c.req.raw)))) return tooMany(c);
    return next();
  });

const asset = (text: string, type: string) => () =>
  new Response(text, { headers: { "content-type": type, "cache-control": "public, max-age=300" } });
webRoutes.get("/assets/style.css", asset(STYLE, "text/css; charset=utf-8"));
webRoutes.get("/assets/code.js", asset(CODE_SCRIPT, "text/javascript; charset=utf-8"));
webRoutes.get("/assets/passkey.js", asset(PASSKEY_SCRIPT, "text/javascript; charset=utf-8"));

webRoutes.get("/", (c) => c.redirect("/account", 303));
webRoutes.get("/sign-in", signInPage);
webRoutes.post("/sign-in", signIn);
webRoutes.post("/sign-in/passkey/options", passkeySignInOptions);
webRoutes.post("/sign-in/passkey", passkeySignIn);
webRoutes.post("/sign-in/provider", providerSignIn);
webRoutes.get("/sign-in/provider/callback", providerCallback);
webRoutes.get("/sign-up", (c) => signUpPage(c));
webRoutes.post("/sign-up/options", signUpOptions);
webRoutes.post("/sign-up", signUp);
webRoutes.post("/sign-out", signOut);
webRoutes.get("/authorize", authorizePage);
webRoutes.post("/authorize", authorize);

type OwnersPage = (c: WebContext, owner: Owner) => Response | Promise<Response>;
const OWNERS_PAGES: Record<string, OwnersPage> = {
  "/account": accountPage,
  "/account/activity": activityPage,
  "/account/data": dataPage,
  "/account/projects/:project_id": projectPage,
};
for (const [path, show] of Object.entries(OWNERS_PAGES))
  webRoutes.get(path, async (c) => {
    const owner = c.get("owner");
    if (owner) return show(c, owner);
    const back = new URLSearchParams({ return_to: c.req.path });
    return c.redirect(path === "/account" ? "/sign-in" : `/sign-in?${back}`, 303);
  });

type Action = (c: WebContext, owner: Owner, form: FormData) => Response | Promise<Response>;
const ACTIONS: Record<string, Action> = {
  "/account/agents/disconnect": disconnectAgent,
  "/account/agents/revoke": revokeAgent,
  "/account/delete": deleteData,
  "/account/devices/remove": removeDevice,
  "/account/enrolment-codes": enrolmentCodePage,
  "/account/export": exportData,
  "/account/passkeys": addPasskey,
  "/account/passkeys/options": addPasskeyOptions,
  "/account/passkeys/remove": dropPasskey,
  "/account/projects": createProject,
  "/account/projects/delete": deleteProject,
  "/account/projects/rename": renameProject,
  "/account/projects/settings": saveSettings,
  "/account/provider": linkProvider,
  "/account/provider/remove": unlinkProvider,
};
for (const [path, action] of Object.entries(ACTIONS))
  webRoutes.post(path, async (c) => {
    const owner = c.get("owner");
    const form = await readForm(c);
    return owner && form ? action(c, owner, form) : badForm(c);
  });
