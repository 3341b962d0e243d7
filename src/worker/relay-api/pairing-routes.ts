import { Hono } from "hono";
import { RELAY_PATH } from "../../protocol/relay-api.ts";
import type { Env } from "../env.ts";
import { registerDevice, removeSelf } from "./devices.ts";
import { listProjects } from "./projects.ts";
import { deviceTokenEndpoint } from "./token.ts";

/** The part of the relay API that makes a device known: pairing, tokens, projects, leaving. */
export const pairingRoutes = new Hono<{ Bindings: Env }>().basePath(RELAY_PATH);

pairingRoutes.post("/devices", (c) => registerDevice(c.req.raw, c.env));
pairingRoutes.delete("/devices/self", (c) => removeSelf(c.req.raw, c.env));
pairingRoutes.post("/token", (c) => deviceTokenEndpoint(c.req.raw, c.env));
pairingRoutes.get("/projects", (c) => listProjects(c.req.raw, c.env));
