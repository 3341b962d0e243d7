import { Queue, Worker } from "bullmq";
import { Redis } from "ioredis";
import type { Contestant, Laptop, OpenContestant } from "../contestant.ts";
import { argumentsJson, keyOf, resultJson } from "../payload.ts";

// BullMQ as its guide has it: the idempotency key is the job's id, finished jobs stay, the owner stands in
// the job's data, one worker with as much concurrency as there are laptops, each agent its own connection.

interface Data {
  agent: string;
  arguments_json: string;
}

const NAME = "runs";
const LEASE_MS = 90_000;
const agentOf = (client: number) => `agent-${client}`;
const jobId = (client: number, key: string) => `${agentOf(client)}-${key}`;
const storedKey = (index: number) => `stored-${index}`;

export const openContestant: OpenContestant = async ({ port, pid }) => {
  const connection = { host: "127.0.0.1", port, maxRetriesPerRequest: null };
  let queues: Queue<Data, string>[] = [];
  let worker: Worker<Data, string> | undefined;
  let stored = 0;

  const contestant: Contestant = {
    servers: [pid],

    async open(clients, laptop) {
      queues = Array.from({ length: clients }, () => new Queue<Data, string>(NAME, { connection }));
      for (const queue of queues) queue.on("error", (error) => laptop.failed(error));
      await Promise.all(queues.map((queue) => queue.waitUntilReady()));
      worker = laptopWorker(clients, laptop);
      await worker.waitUntilReady();
    },

    async enqueue(client, key, argumentsText) {
      const job = await queueOf(client).add(
        "run",
        { agent: agentOf(client), arguments_json: argumentsText },
        { jobId: jobId(client, key), attempts: 1 },
      );
      return job.id ?? "";
    },

    async read(client, id) {
      const job = await queueOf(client).getJob(id);
      if (!job || job.data.agent !== agentOf(client)) return undefined;
      return { finished: job.finishedOn !== undefined, resultJson: job.returnvalue ?? undefined };
    },

    async fill(total) {
      const redis = new Redis(connection);
      await fillFrom(redis, stored, total);
      stored = total;
      redis.disconnect();
    },

    storedId: (index) => jobId(0, storedKey(index)),

    async close() {
      await worker?.close();
      await Promise.all(queues.map((queue) => queue.close()));
      queues = [];
    },
  };

  function queueOf(client: number): Queue<Data, string> {
    const queue = queues[client];
    if (!queue) throw new Error("not open");
    return queue;
  }

  function laptopWorker(clients: number, laptop: Laptop): Worker<Data, string> {
    const made = new Worker<Data, string>(
      NAME,
      (job, token) =>
        laptop.run({
          key: keyOf(job.data.arguments_json),
          argumentsJson: job.data.arguments_json,
          heartbeat: async () => {
            // Both go out on one connection in one packet.
            await Promise.all([
              job.extendLock(token ?? "", LEASE_MS),
              job.updateProgress({ state: "running", percent: 50 }),
            ]);
          },
        }),
      // A job that may start at most once is neither stalled back into the queue nor tried again.
      { connection, concurrency: clients, lockDuration: LEASE_MS, maxStalledCount: 0 },
    );
    made.on("completed", (job) => laptop.completed(keyOf(job.data.arguments_json)));
    made.on("failed", (_job, error) => laptop.failed(error));
    made.on("error", (error) => laptop.failed(error));
    return made;
  }

  return contestant;
};

/** Writes finished jobs as BullMQ leaves them: a hash each, and a place in the set of the finished. */
async function fillFrom(redis: Redis, from: number, to: number): Promise<void> {
  const batch = 2_000;
  const at = Date.now() - 86_400_000;
  await redis.config("SET", "appendfsync", "no");
  for (let start = from; start < to; start += batch) {
    const pipeline = redis.pipeline();
    for (let index = start; index < Math.min(to, start + batch); index++) {
      const key = storedKey(index);
      const id = jobId(0, key);
      const data: Data = { agent: agentOf(0), arguments_json: argumentsJson(key, index) };
      pipeline.hset(`bull:${NAME}:${id}`, {
        name: "run",
        data: JSON.stringify(data),
        opts: '{"attempts":1}',
        timestamp: at,
        delay: 0,
        priority: 0,
        processedOn: at,
        progress: '{"state":"running","percent":50}',
        returnvalue: JSON.stringify(resultJson(key, index)),
        finishedOn: at,
        ats: 1,
        atm: 1,
      });
      pipeline.zadd(`bull:${NAME}:completed`, at + index, id);
    }
    await pipeline.exec();
  }
  await redis.config("SET", "appendfsync", "always");
}
