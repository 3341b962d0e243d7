import { Hono } from "hono";
import { cors } from "hono/cors";
import type { Env } from "../env.ts";
import { publicKeySet } from "../relay-api/signing-keys.ts";
import { oauthError } from "./http.ts";
import { issuerOf } from "./issuer.ts";
import { authorizationServerMetadata, protectedResourceMetadata } from "./metadata.ts";
import { registerClient } from "./register-endpoint.ts";
import { revokeEndpoint, tokenEndpoint } from "./token-endpoint.ts";

/**
 * What programs call: discovery, registration, tokens, revocation. Nothing here looks at a cookie, so
 * browser clients of any origin may call it.
 */
export const oauthRoutes = new Hono<{ Bindings: Env }>();

oauthRoutes.use("/.well-known/*", cors({ origin: "*", allowMethods: ["GET", "HEAD"], maxAge: 86_400 }));
for (const path of ["/token", "/register", "/revoke"]) {
  oauthRoutes.use(
    path,
    cors({
      origin: "*",
      allowMethods: ["POST"],
      allowHeaders: ["Content-Type", "Authorization", "MCP-Protocol-Version"],
      exposeHeaders: ["WWW-Authenticate", "Retry-After"],
      maxAge: 86_400,
    }),
  );
  oauthRoutes.use(path, async (c, next) => {
    if (c.req.method !== "POST")
      return oauthError(405, "invalid_request", "Only POST is served here", { allow: "POST, OPTIONS" });
    return next();
  });
}

oauthRoutes.get("/.well-known/oauth-authorization-server", (c) =>
  c.json(authorizationServerMetadata(issuerOf(c.req.raw))),
);
for (const path of ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"])
  oauthRoutes.get(path, (c) => c.json(protectedResourceMetadata(issuerOf(c.req.raw))));
oauthRoutes.get("/.well-known/jwks.json", (c) => c.json(publicKeySet(c.env.SIGNING_KEYS)));
oauthRoutes.all("/.well-known/*", (c) =>
  c.json({ error: "not_found", error_description: "There is no such document here" }, 404),
);

oauthRoutes.post("/token", (c) => tokenEndpoint(c.req.raw, c.env, c.executionCtx as ExecutionContext));
oauthRoutes.post("/revoke", (c) => revokeEndpoint(c.req.raw, c.env, c.executionCtx as ExecutionContext));
oauthRoutes.post("/register", (c) => registerClient(c.req.raw, c.env, c.executionCtx as ExecutionContext));
