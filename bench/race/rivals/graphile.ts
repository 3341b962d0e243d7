import { EventEmitter } from "node:events";
import { Logger, type Runner, run, runMigrations, type WorkerEvents } from "graphile-worker";
import pg from "pg";
import type { Contestant, Laptop, OpenContestant } from "../contestant.ts";
import { argumentsJson, keyOf, resultJson } from "../payload.ts";
import { COMPLETE, ENQUEUE, FILL, FIND, HEARTBEAT, READ, START, TABLES } from "./graphile-sql.ts";

// graphile-worker as its documentation has it. It forgets a job when it ends, so what must last (owner, key,
// state, result) stands in a table beside it, and a run and its job are made in one transaction.

const LEASE_SECONDS = 90;
/** Connections of the agents, and as many of the laptops. With 100 callers, 20 were faster than 10 or 100. */
const MOST_CONNECTIONS = 20;
const agentOf = (client: number) => `agent-${client}`;

export const openContestant: OpenContestant = async ({ port, pid }) => {
  const connectionString = `postgres://race@127.0.0.1:${port}/race`;
  const logger = new Logger(() => (level, message) => {
    if (level === "error") console.error(message);
  });
  await runMigrations({ connectionString, logger });
  const admin = new pg.Client({ connectionString });
  await admin.connect();
  await admin.query(TABLES);
  await admin.end();

  let agents: pg.Pool | undefined;
  let laptops: pg.Pool | undefined;
  let runner: Runner | undefined;
  let stored = 0;

  const contestant: Contestant = {
    servers: [pid],

    async open(clients, laptop) {
      const size = Math.min(clients, MOST_CONNECTIONS);
      agents = new pg.Pool({ connectionString, max: size });
      // One more: the runner keeps a connection to listen on.
      laptops = new pg.Pool({ connectionString, max: size + 1 });
      for (const pool of [agents, laptops]) {
        pool.on("error", laptop.failed);
        pool.on("connect", (connection) => connection.on("error", laptop.failed));
      }
      await Promise.all([connectAll(agents, size), connectAll(laptops, size)]);
      runner = await startRunner(laptops, clients, laptop);
    },

    async enqueue(client, key, argumentsText) {
      const values = [agentOf(client), key, `laptop-${client}`, argumentsText];
      const made = await poolOf(agents).query<{ id: string }>({ name: "enqueue", text: ENQUEUE, values });
      if (made.rows[0]) return made.rows[0].id;
      const found = await poolOf(agents).query<{ id: string }>({
        name: "find",
        text: FIND,
        values: values.slice(0, 2),
      });
      return found.rows[0]?.id ?? "";
    },

    async read(client, id) {
      const { rows } = await poolOf(agents).query<{ state: string; result: string | null }>({
        name: "read",
        text: READ,
        values: [id, agentOf(client)],
      });
      const row = rows[0];
      return row && { finished: row.state === "completed", resultJson: row.result ?? undefined };
    },

    async fill(total) {
      const client = new pg.Client({ connectionString });
      await client.connect();
      await client.query("set synchronous_commit = off");
      for (let at = stored; at < total; at += 5_000) await fillBatch(client, at, Math.min(total, at + 5_000));
      await client.query("analyze runs");
      await client.query("checkpoint");
      await client.end();
      stored = total;
    },

    storedId,

    async close() {
      await runner?.stop();
      await agents?.end();
      await laptops?.end();
    },
  };

  async function startRunner(pool: pg.Pool, clients: number, laptop: Laptop): Promise<Runner> {
    const events: WorkerEvents = new EventEmitter();
    events.setMaxListeners(0);
    const keys = new Map<string, string>();
    events.on("job:complete", ({ job, error }) => {
      if (error) return laptop.failed(error);
      const key = keys.get(job.id);
      keys.delete(job.id);
      if (key) laptop.completed(key);
    });
    return run({
      pgPool: pool,
      logger,
      events,
      concurrency: clients,
      noHandleSignals: true,
      // Batching, as its page on performance recommends: a tenth to a quarter faster here than without.
      preset: { worker: { localQueue: { size: clients + 1 }, completeJobBatchDelay: 0 } },
      crontab: "",
      taskList: {
        run: async (payload, helpers) => {
          const { id } = payload as { id: string };
          const attempt = crypto.randomUUID();
          const named = <R extends pg.QueryResultRow>(query: pg.QueryConfig) =>
            helpers.withPgClient((connection) => connection.query<R>(query));
          const started = await named<{ arguments: string }>({
            name: "start",
            text: START,
            values: [id, attempt, LEASE_SECONDS],
          });
          const row = started.rows[0];
          if (!row) return;
          const key = keyOf(row.arguments);
          const result = await laptop.run({
            key,
            argumentsJson: row.arguments,
            heartbeat: async () => {
              const values = [id, attempt, LEASE_SECONDS, '{"state":"running","percent":50}'];
              const beat = await named({ name: "heartbeat", text: HEARTBEAT, values });
              if (beat.rowCount !== 1) throw new Error("The run is not this attempt's any more");
            },
          });
          const ended = await named({
            name: "complete",
            text: COMPLETE,
            values: [id, attempt, result],
          });
          if (ended.rowCount !== 1) throw new Error("The result was kept out");
          keys.set(String(helpers.job.id), key);
        },
      },
    });
  }

  return contestant;
};

function poolOf(pool: pg.Pool | undefined): pg.Pool {
  if (!pool) throw new Error("not open");
  return pool;
}

/** Opens all connections before the clock runs. */
async function connectAll(pool: pg.Pool, count: number): Promise<void> {
  const clients = await Promise.all(Array.from({ length: count }, () => pool.connect()));
  for (const client of clients) client.release();
}

const storedId = (index: number) => `00000000-0000-4000-8000-${index.toString(16).padStart(12, "0")}`;

async function fillBatch(client: pg.Client, from: number, to: number): Promise<void> {
  const indexes = Array.from({ length: to - from }, (_, i) => from + i);
  const keys = indexes.map((index) => `stored-${index}`);
  await client.query(FILL, [
    indexes.map(storedId),
    keys,
    keys.map((key, i) => argumentsJson(key, from + i)),
    keys.map((key, i) => resultJson(key, from + i)),
    agentOf(0),
  ]);
}
