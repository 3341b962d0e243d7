import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { setImmediate as turn } from "node:timers/promises";
import type { Queue } from "../../../src/durable/queue.ts";
import { newCommandId } from "../../../src/protocol/ids.ts";
import { DEFAULT_SETTINGS } from "../../../src/protocol/limits.ts";
import { systemClock, systemRandom } from "../../../src/protocol/ports.ts";
import { NodeStorage, openQueue } from "../../../test/support/queue-storage.ts";
import type { Contestant, Laptop, OpenContestant } from "../contestant.ts";
import { fillObject, outcome, storedCommandId } from "./stored.ts";

// The queue's rules alone: the product's own code in this process, over SQLite in a file that is synced at
// each commit. One project, in which each client is an agent with a device and a session.

const NUMBER = "00000000a0ce";
const PROJECT = `prj_${NUMBER}`;
const hex = (client: number) => client.toString(16).padStart(32, "0");
const agent = (client: number) => `agt_${hex(client)}`;
const device = (client: number) => `dev_${hex(client)}`;
const session = (client: number) => `gs_${hex(client)}`;
const MOST_CLIENTS = 1_000;

export const openContestant: OpenContestant = async ({ folder }) => {
  mkdirSync(folder, { recursive: true });
  const file = join(folder, "object.sqlite");
  let open: { queue: Queue; storage: NodeStorage } | undefined;
  let stored = 0;
  let laptop: Laptop | undefined;

  function reopen(): Queue {
    const storage = new NodeStorage(file);
    storage.sql.exec("pragma journal_mode = wal");
    storage.sql.exec("pragma synchronous = full");
    storage.sql.exec("pragma foreign_keys = on");
    const host = { changed: () => {}, wake: (id: string) => void work(id), due: () => {} };
    open = openQueue(systemClock, host, storage);
    return open.queue;
  }

  /** The woken laptop's pass: asks for its commands and does them. */
  async function work(device_id: string): Promise<void> {
    const serving = laptop;
    if (!serving) return;
    try {
      await turn();
      const pass = queueOf().sync({ device_id, sessions_digest: "", token_issued_at: 0 });
      if (!pass.ok) throw new Error(pass.error);
      for (const { command_id, arguments_json } of pass.commands)
        await run(serving, device_id, command_id, arguments_json);
    } catch (error) {
      serving.failed(error);
    }
  }

  async function run(serving: Laptop, device_id: string, command_id: string, argumentsText: string) {
    const attempt_id = crypto.randomUUID();
    const mine = { device_id, command_id, attempt_id };
    const started = queueOf().start(mine);
    if (!started.ok || !started.value.go) return;
    const key = (JSON.parse(argumentsText) as { key: string }).key;
    const result = await serving.run({
      key,
      argumentsJson: argumentsText,
      heartbeat: async () => {
        const beat = queueOf().control({ ...mine, progress: { state: "running", percent: 50 } });
        if (!beat.ok || !beat.value.alive) throw new Error("The run is not this attempt's any more");
      },
    });
    const done = queueOf().complete({ ...mine, completion: outcome(result) });
    if (!done.ok || done.value.record !== "stored") throw new Error("The result was kept out");
    serving.completed(key);
  }

  function queueOf(): Queue {
    if (!open) throw new Error("not open");
    return open.queue;
  }

  const contestant: Contestant = {
    servers: [],

    async open(clients, serving) {
      laptop = serving;
      const queue = reopen();
      const everyone = Array.from({ length: Math.max(clients, 1) }, (_, client) => client);
      queue.applyAccess({
        project_id: PROJECT,
        version: Date.now(),
        agents: everyone.map((client) => ({ agent_id: agent(client), name: "Racer" })),
        devices: everyone.map((client) => ({ device_id: device(client) })),
        settings: { ...DEFAULT_SETTINGS, max_queued_per_project: MOST_CLIENTS },
      });
    },

    async enqueue(client, key, argumentsText) {
      const answer = queueOf().enqueue({
        agent_id: agent(client),
        command_id: newCommandId(PROJECT, systemRandom),
        graph_session_id: session(client),
        device_id: device(client),
        slug: "race",
        arguments_json: argumentsText,
        idempotency_key: key,
      });
      if (!answer.ok) throw new Error(answer.error);
      return answer.run.command_id;
    },

    async read(client, id) {
      const run = queueOf().getRun({ agent_id: agent(client), command_id: id });
      if (!run) return undefined;
      const { result } = JSON.parse(run.outcome_json ?? "{}") as { result?: string };
      return { finished: run.status === "completed", resultJson: result };
    },

    async fill(total) {
      reopen();
      open?.storage.close();
      const owner = {
        number: NUMBER,
        agent_id: agent(0),
        device_id: device(0),
        graph_session_id: session(0),
      };
      fillObject(file, owner, stored, total);
      stored = total;
    },

    storedId: (index) => storedCommandId(NUMBER, index),

    async close() {
      laptop = undefined;
      open?.storage.close();
      open = undefined;
    },
  };
  return contestant;
};
