import type { ProjectQueueApi } from "../durable/contract.ts";
import type { RandomSource } from "../protocol/ports.ts";
import type { Env } from "./env.ts";
import { type Queues, retryingQueues } from "./queues.ts";

/** The bound namespace's objects, named by project id. */
export function boundQueues(env: Env, random: RandomSource): Queues {
  return retryingQueues({
    // The stub's type wraps every answer in the runtime's RPC types; the answers are plain data.
    open: (projectId) => env.PROJECT_QUEUE.getByName(projectId) as unknown as ProjectQueueApi,
    random,
    sleep: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
  });
}
