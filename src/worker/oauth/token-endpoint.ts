import { systemClock } from "../../protocol/ports.ts";
import { readBodyText } from "../body.ts";
import type { Env } from "../env.ts";
import { noStore, oauthError } from "./http.ts";
import { canonicalResource, issuerOf, mcpResource } from "./issuer.ts";
import { refreshOnce } from "./refresh.ts";
import { authorizationServer, oauthEnv } from "./server.ts";

const BODY_BYTES = 16 * 1024;
const FORM = "application/x-www-form-urlencoded";

/** `POST /token`: codes and refresh tokens for access tokens. */
export async function tokenEndpoint(request: Request, env: Env, ctx: ExecutionContext): Promise<Response> {
  const form = await readForm(request);
  if (form instanceof Response) return form;
  const issuer = issuerOf(request);
  const resource = resourceOf(form, issuer);
  if (resource === undefined)
    return oauthError(400, "invalid_target", "resource is not one this server issues tokens for");
  if (resource !== "") form.set("resource", resource);

  const ask = () => forward(form, issuer, env, ctx);
  if (form.get("grant_type") !== "refresh_token") return ask();
  const token = form.get("refresh_token") ?? "";
  const clientId = form.get("client_id") ?? "";
  // Only agents have refresh tokens, and theirs are for the MCP endpoint.
  if (resource !== "" && resource !== mcpResource(issuer))
    return oauthError(400, "invalid_target", "resource is not the one the grant was given for");
  if (!token || !clientId) return ask();
  return refreshOnce(token, clientId, {
    d1: env.DB,
    clock: systemClock,
    refresh: ask,
    sleep: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
  });
}

/** `POST /revoke` (RFC 7009): the library takes it at its token endpoint. */
export async function revokeEndpoint(request: Request, env: Env, ctx: ExecutionContext): Promise<Response> {
  const form = await readForm(request);
  if (form instanceof Response) return form;
  form.delete("grant_type");
  if (!form.get("token")) return oauthError(400, "invalid_request", "token is missing");
  return forward(form, issuerOf(request), env, ctx);
}

async function readForm(request: Request): Promise<URLSearchParams | Response> {
  if ((request.headers.get("content-type") ?? "").split(";")[0]?.trim().toLowerCase() !== FORM)
    return oauthError(400, "invalid_request", `Content-Type must be ${FORM}`);
  const read = await readBodyText(request, BODY_BYTES);
  if (!read.ok && read.error === "too_large")
    return oauthError(413, "invalid_request", `The body is over ${BODY_BYTES} bytes`);
  const form = new URLSearchParams(read.ok ? read.text : "");
  const repeated = [...new Set(form.keys())].find(
    (name) => form.getAll(name).length > 1 && name !== "resource",
  );
  if (repeated !== undefined) return oauthError(400, "invalid_request", "A parameter must not be repeated");
  return form;
}

/** The canonical resource that the form names, `""` if it names none, `undefined` if it is not ours. */
function resourceOf(form: URLSearchParams, issuer: string): string | undefined {
  const named = new Set(form.getAll("resource").map((value) => canonicalResource(value, issuer)));
  if (named.size === 0) return "";
  return named.size === 1 ? [...named][0] : undefined;
}

async function forward(
  form: URLSearchParams,
  issuer: string,
  env: Env,
  ctx: ExecutionContext,
): Promise<Response> {
  const request = new Request(`${issuer}/token`, {
    method: "POST",
    headers: { "content-type": FORM },
    body: form.toString(),
  });
  const response = await authorizationServer(issuer).fetch(request, oauthEnv(env), ctx);
  return noStore(new Response(response.body, response));
}
