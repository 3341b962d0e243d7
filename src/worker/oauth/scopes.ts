import { SCOPES, type Scope } from "../../protocol/tools.ts";

const OFFLINE = "offline_access";

const isScope = (name: string): name is Scope => (SCOPES as readonly string[]).includes(name);

/** The tools' scopes among these, with `osfoundry:read` wherever `osfoundry:run` is: to run is to read. */
export function expandScopes(scopes: readonly string[]): Scope[] {
  const named = new Set(scopes.filter(isScope));
  return SCOPES.filter(
    (scope) => named.has(scope) || (scope === "osfoundry:read" && named.has("osfoundry:run")),
  );
}

/** What an authorization request asks for: unknown scopes are left out, none named means all, and only unknown ones is an error. */
export function requestedScopes(
  asked: readonly string[],
): { ok: true; scopes: Scope[]; offline: boolean } | { ok: false } {
  const offline = asked.includes(OFFLINE);
  const scopes = expandScopes(asked);
  if (scopes.length > 0) return { ok: true, scopes, offline };
  if (asked.length > 0 && !offline) return { ok: false };
  return { ok: true, scopes: [...SCOPES], offline };
}

/** The scopes of a grant: what the owner left ticked. `offline_access` is granted to who asked for it; every client gets refresh tokens. */
export const grantedScopes = (scopes: readonly Scope[], offline: boolean): string[] =>
  offline ? [...scopes, OFFLINE] : [...scopes];
