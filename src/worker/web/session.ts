import type { Context, MiddlewareHandler } from "hono";
import { deleteCookie, getCookie, setCookie } from "hono/cookie";
import { sha256Hex } from "../../protocol/json.ts";
import { systemClock, systemRandom } from "../../protocol/ports.ts";
import { database } from "../db/client.ts";
import { deleteWebSession, findWebSession, insertWebSession } from "../db/web-sessions.ts";
import type { Env } from "../env.ts";

/** How long an owner's browser stays signed in. */
const SESSION_MS = 7 * 24 * 3600 * 1000;

/** How long after a sign-in the steps that need a fresh one are open. */
const FRESH_MS = 10 * 60 * 1000;

/** The owner that a page is for. */
export interface Owner {
  account_id: string;
  account_name: string;
  authenticated_at: number;
}
export interface WebVariables {
  owner: Owner | undefined;
  /** What this browser's forms must carry. */
  csrf: string;
}
/** Whether the owner proved who they are just now. */
export const isFresh = (owner: Owner): boolean => systemClock.now() - owner.authenticated_at < FRESH_MS;

export type WebContext = Context<{ Bindings: Env; Variables: WebVariables }>;
type WebMiddleware = MiddlewareHandler<{ Bindings: Env; Variables: WebVariables }>;

const isHttps = (c: Context): boolean => new URL(c.req.url).protocol === "https:";
/** On http://localhost browsers refuse both the prefix and `Secure`. */
const cookieName = (c: Context, name: "session" | "form"): string => (isHttps(c) ? `__Host-${name}` : name);
export const newSecret = (): string =>
  systemRandom.bytes(32).toBase64({ alphabet: "base64url", omitPadding: true });
const csrfOf = (secret: string): Promise<string> => sha256Hex(`csrf:${secret}`);

function setSecret(c: Context, name: "session" | "form", value: string, seconds?: number): void {
  setCookie(c, cookieName(c, name), value, {
    path: "/",
    httpOnly: true,
    sameSite: "Lax",
    secure: isHttps(c),
    ...(seconds === undefined ? {} : { maxAge: seconds }),
  });
}

/**
 * Finds out who is signed in, and the token that this browser's forms must carry: it is made from the
 * session's cookie, or from one of its own for who is not signed in.
 */
export const withOwner: WebMiddleware = async (c, next) => {
  const session = getCookie(c, cookieName(c, "session"));
  const owner = session
    ? await findWebSession(database(c.env.DB), await sha256Hex(session), systemClock.now())
    : undefined;
  c.set("owner", owner);
  if (session && owner) {
    c.set("csrf", await csrfOf(session));
  } else {
    let form = getCookie(c, cookieName(c, "form"));
    if (!form || form.length < 43) {
      form = newSecret();
      setSecret(c, "form", form);
    }
    c.set("csrf", await csrfOf(form));
  }
  await next();
};

/** Starts a session under a new secret, whatever cookie the browser came with, and ends the one it had. */
export async function startSession(c: WebContext, accountId: string): Promise<void> {
  const db = database(c.env.DB);
  const earlier = getCookie(c, cookieName(c, "session"));
  if (earlier) await deleteWebSession(db, await sha256Hex(earlier));
  const secret = newSecret();
  await insertWebSession(db, {
    sessionHash: await sha256Hex(secret),
    accountId,
    now: systemClock.now(),
    lifetimeMs: SESSION_MS,
  });
  setSecret(c, "session", secret, SESSION_MS / 1000);
  deleteCookie(c, cookieName(c, "form"), { path: "/", secure: isHttps(c) });
}

export async function endSession(c: WebContext): Promise<void> {
  const session = getCookie(c, cookieName(c, "session"));
  if (session) await deleteWebSession(database(c.env.DB), await sha256Hex(session));
  deleteCookie(c, cookieName(c, "session"), { path: "/", secure: isHttps(c) });
}
