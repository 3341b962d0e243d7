import type { ProjectQueueApi } from "../durable/contract.ts";
import type { RandomSource } from "../protocol/ports.ts";

/** The projects' objects, behind one way of calling them. */
export interface Queues {
  /**
   * One call to a project's object. Every call of `ProjectQueueApi` may be repeated, so one that failed on
   * the way is tried again. Throws `QueueUnavailable` when the object is overloaded or stays out of reach,
   * and whatever the object threw otherwise. The project must be known to exist.
   */
  call<T>(projectId: string, use: (queue: ProjectQueueApi) => Promise<T>): Promise<T>;
}

/** The object could not be reached now; the same request may succeed later. */
export class QueueUnavailable extends Error {}

/** Upper bounds of the waits before the second and third try, in milliseconds. The waits have full jitter. */
const RETRY_WAITS = [100, 400];

export interface QueuesDeps {
  open(projectId: string): ProjectQueueApi;
  random: RandomSource;
  sleep(ms: number): Promise<void>;
}

/** `Queues` over any way of opening an object. */
export function retryingQueues({ open, random, sleep }: QueuesDeps): Queues {
  return {
    async call(projectId, use) {
      for (const wait of [...RETRY_WAITS, undefined]) {
        try {
          // A stub is often broken after an exception, so each try opens a new one.
          return await use(open(projectId));
        } catch (error) {
          const { overloaded, retryable } = error as { overloaded?: boolean; retryable?: boolean };
          if (overloaded) throw new QueueUnavailable("overloaded", { cause: error });
          if (!retryable) throw error;
          if (wait === undefined) throw new QueueUnavailable("out of reach", { cause: error });
          await sleep((wait * (random.bytes(1)[0] ?? 0)) / 255);
        }
      }
      throw new QueueUnavailable("out of reach");
    },
  };
}
