import { Hono } from "hono";
import { systemClock, systemRandom } from "../../protocol/ports.ts";
import { RELAY_PATH } from "../../protocol/relay-api.ts";
import { boundQueues } from "../bound-queues.ts";
import type { Env } from "../env.ts";
import { logFailure } from "../log.ts";
import { QueueUnavailable } from "../queues.ts";
import { errorAnswer, RelayError } from "./answers.ts";
import { complete, control, start } from "./commands.ts";
import { authenticateDevice } from "./device-token.ts";
import { isPairedAfterAll } from "./removed-device.ts";
import { authenticated, type RelayCall, type RelayDeps } from "./request.ts";
import { sync } from "./sync.ts";
import { wake } from "./wake.ts";

/** The relay API's calls about sessions and commands, below `RELAY_PATH` (design section 8). */
export function createRelayRoutes(deps: RelayDeps): Hono<{ Bindings: Env }> {
  const app = new Hono<{ Bindings: Env }>();
  const answer = async (
    request: Request,
    env: Env,
    serve: (call: RelayCall) => Promise<Response>,
  ): Promise<Response> => {
    const call = await authenticated(request, env, deps);
    try {
      return await serve(call);
    } catch (error) {
      const removed = error instanceof RelayError && error.code === "device_removed";
      if (removed && (await isPairedAfterAll(env, call.device))) throw new RelayError("unavailable");
      throw error;
    }
  };
  app.post(`${RELAY_PATH}/sync`, ({ req, env }) => answer(req.raw, env, (call) => json(sync(call, req.raw))));
  app.get(`${RELAY_PATH}/wake`, ({ req, env }) => answer(req.raw, env, (call) => wake(call, req.raw)));
  app.post(`${RELAY_PATH}/commands/:id/start`, ({ req, env }) =>
    answer(req.raw, env, (call) => json(start(call, req.param("id"), req.raw))),
  );
  app.post(`${RELAY_PATH}/commands/:id/control`, ({ req, env }) =>
    answer(req.raw, env, (call) => json(control(call, req.param("id"), req.raw))),
  );
  app.post(`${RELAY_PATH}/commands/:id/complete`, ({ req, env }) =>
    answer(req.raw, env, (call) => json(complete(call, req.param("id"), req.raw))),
  );
  app.onError((error) => {
    if (error instanceof RelayError) return errorAnswer(error, deps.now());
    if (error instanceof QueueUnavailable) return errorAnswer(new RelayError("unavailable"), deps.now());
    const correlation = crypto.randomUUID();
    logFailure(`a relay call failed (${correlation}):`, error);
    return errorAnswer(
      new RelayError("internal", `The server failed. Try again later. Reference: ${correlation}.`),
      deps.now(),
    );
  });
  return app;
}

const json = async (answer: Promise<object>): Promise<Response> =>
  Response.json(await answer, { headers: { "cache-control": "no-store" } });

/** The relay API as it is deployed. */
export const relayRoutes = createRelayRoutes({
  authenticate: authenticateDevice,
  queues: (env) => boundQueues(env, systemRandom),
  now: () => systemClock.now(),
});
