import { Hono } from "hono";
import type { Env } from "./env.ts";
import { logFailure } from "./log.ts";
import { mcpRoutes } from "./mcp/index.ts";
import { oauthRoutes } from "./oauth/routes.ts";
import { relayRoutes } from "./relay-api/index.ts";
import { pairingRoutes } from "./relay-api/pairing-routes.ts";
import { everyMinute } from "./scheduled.ts";
import { secureOnly } from "./secure-origin.ts";
import { webRoutes } from "./web/routes.ts";

export { ProjectQueue } from "../durable/project-queue.ts";

const app = new Hono<{ Bindings: Env }>();

app.use(secureOnly);
app.get("/health", (c) => c.json({ status: "ok" }));
app.route("/", mcpRoutes);
app.route("/", relayRoutes);
app.route("/", pairingRoutes);
app.route("/", oauthRoutes);
app.route("/", webRoutes);

app.notFound((c) =>
  c.json({ error: "not_found", error_description: "There is nothing at this address" }, 404),
);
app.onError((error, c) => {
  if ("getResponse" in error) return error.getResponse();
  logFailure(`${c.req.method} ${c.req.path} failed:`, error);
  return c.json({ error: "server_error", error_description: "The server failed. Try again later." }, 500);
});

export default {
  fetch: app.fetch,
  scheduled: (_event, env) => everyMinute(env),
} satisfies ExportedHandler<Env>;
