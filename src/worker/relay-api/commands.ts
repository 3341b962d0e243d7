import { LIMITS } from "../../protocol/limits.ts";
import {
  type CompleteResponse,
  type ControlResponse,
  completeRequest,
  controlRequest,
  type StartResponse,
  startRequest,
} from "../../protocol/relay-api.ts";
import { RelayError, served } from "./answers.ts";
import { projectOf, type RelayCall, readBody } from "./request.ts";

/** `POST /commands/:id/start`: whether this attempt may run the command. */
export async function start(call: RelayCall, commandId: string, request: Request): Promise<StartResponse> {
  const project = projectOf(call, commandId);
  const { value } = await readBody(request, startRequest);
  const asked = { ...value, device_id: call.device.device_id, command_id: commandId };
  return served(await call.queues.call(project, (queue) => queue.start(asked))).value;
}

/** `POST /commands/:id/control`: renews the lease, tells the progress, asks whether to stop. */
export async function control(
  call: RelayCall,
  commandId: string,
  request: Request,
): Promise<ControlResponse> {
  const project = projectOf(call, commandId);
  const { value } = await readBody(request, controlRequest);
  const asked = { ...value, device_id: call.device.device_id, command_id: commandId };
  return served(await call.queues.call(project, (queue) => queue.control(asked))).value;
}

/** `POST /commands/:id/complete`: how the run ended. The same completion again changes nothing. */
export async function complete(
  call: RelayCall,
  commandId: string,
  request: Request,
): Promise<CompleteResponse> {
  const project = projectOf(call, commandId);
  const { attempt_id, ...completion } = (await readBody(request, completeRequest)).value;
  if (JSON.stringify(completion).length > LIMITS.completionCharacters)
    throw new RelayError(
      "body_too_large",
      `The completion is over ${LIMITS.completionCharacters} characters: send it without its result.`,
    );
  const asked = {
    device_id: call.device.device_id,
    command_id: commandId,
    completion,
    ...(attempt_id === undefined ? {} : { attempt_id }),
  };
  return served(await call.queues.call(project, (queue) => queue.complete(asked))).value;
}
