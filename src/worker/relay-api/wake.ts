import { type DeviceRefusal, wakeRequest } from "../../durable/contract.ts";
import { served } from "./answers.ts";
import { invalid, ownProject, type RelayCall } from "./request.ts";

/**
 * `GET /wake?project_id=`: the socket that tells a device when a pass is worth making. The object that
 * answers holds it; the token stays here.
 */
export async function wake(call: RelayCall, request: Request): Promise<Response> {
  const project = ownProject(call, new URL(request.url).searchParams.get("project_id") ?? "");
  if (request.headers.get("upgrade")?.toLowerCase() !== "websocket")
    throw invalid("This call is the upgrade to a WebSocket.");
  const { device_id } = call.device;
  const answer = await call.queues.call(project, (queue) => queue.fetch(wakeRequest(device_id)));
  if (answer.status !== 101) served<never>(await answer.json<DeviceRefusal>());
  return answer;
}
