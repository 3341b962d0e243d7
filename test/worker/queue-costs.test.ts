import { runInDurableObject } from "cloudflare:test";
import { drizzle } from "drizzle-orm/durable-sqlite";
import { expect, it } from "vitest";
import page from "../../docs/costs.md?raw";
import { withoutPadding } from "../../scripts/lib/docs-tables.ts";
import type { ProjectQueue } from "../../src/durable/project-queue.ts";
import { Queue } from "../../src/durable/queue.ts";
import { newId } from "../../src/protocol/ids.ts";
import { systemRandom } from "../../src/protocol/ports.ts";
import { accessOf, newProject, type Project, request, START, uuid } from "./queue-support.ts";

// What each call costs in rows, as the platform bills them: rows read, and rows written with each index entry
// and each setting of the alarm counted. The table in docs/costs.md is this one; a failure prints it anew.

interface Cost {
  read: number;
  written: number;
}

/** The object's storage, with every statement's cursor kept so that its rows can be counted. */
class CountedStorage {
  readonly #storage: DurableObjectStorage;
  #cursors: SqlStorageCursor<Record<string, SqlStorageValue>>[] = [];

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
  }

  readonly sql = {
    exec: (query: string, ...bindings: SqlStorageValue[]) => {
      const cursor = this.#storage.sql.exec(query, ...bindings);
      this.#cursors.push(cursor);
      return cursor;
    },
  };

  transactionSync<T>(work: () => T): T {
    return this.#storage.transactionSync(work);
  }

  count(): Cost {
    const cursors = this.#cursors.splice(0);
    return {
      read: cursors.reduce((sum, c) => sum + c.rowsRead, 0),
      written: cursors.reduce((sum, c) => sum + c.rowsWritten, 0),
    };
  }
}

const SECOND = 1000;
const DAY = 24 * 60 * 60 * SECOND;

/** Stores runs that ended in every way. */
const seed = (storage: DurableObjectStorage, p: Project, from: number, to: number, kept_until: number) => {
  storage.sql.exec(
    `with recursive n(i) as (select cast(?1 as integer) union all select i + 1 from n where i < ?2)
     insert into commands (command_id, agent_id, idempotency_key, graph_session_id, device_id, slug, state,
       attempt_id, queued_at, expires_at, started_at, lease_until, finished_at, kept_until)
     select 'c' || i, ?3, 'k' || i, ?4, ?5, 's',
       case i % 5 when 0 then 'completed' when 1 then 'failed' when 2 then 'cancelled' when 3 then 'expired' else 'lost' end,
       'a' || i, 0, 0, 0, 0, 0, ?6 from n`,
    ...[from, to, p.agent_id, p.session_id, p.device_id, kept_until],
  );
  storage.sql.exec(
    "insert into payloads select seq, '{}', '{}' from commands where seq not in (select seq from payloads)",
  );
};

/** The cost of each call, in the order of the table, on an object that holds what it holds. */
function measure(storage: DurableObjectStorage, p: Project, version: number): Record<string, Cost> {
  const costs: Record<string, Cost> = {};
  const clock = { time: START + version * DAY, now: () => clock.time };
  const counted = new CountedStorage(storage);
  let alarmAt = Number.POSITIVE_INFINITY;
  let armed = 0;
  const due = (at: number) => {
    if (at >= alarmAt) return;
    alarmAt = at;
    armed++;
  };
  const db = drizzle(counted as unknown as DurableObjectStorage);
  const queue = new Queue(db, clock, { changed: () => {}, wake: () => {}, due });
  due(queue.nextAlarm() ?? Number.POSITIVE_INFINITY);

  const call = (name: string, work: () => unknown) => {
    counted.count();
    armed = 0;
    work();
    const { read, written } = counted.count();
    costs[name] = { read, written: written + armed };
  };
  const device = { device_id: p.device_id };
  const pass = { ...device, sessions_digest: "", token_issued_at: clock.time };
  const newRun = () => {
    const asked = request(p);
    return {
      asked,
      own: { agent_id: p.agent_id, command_id: asked.command_id },
      mine: { ...device, command_id: asked.command_id, attempt_id: uuid() },
    };
  };
  const completion = { execution_id: uuid(), status: "completed", result: 1 } as const;
  const before = [newRun(), newRun(), newRun(), newRun()];
  for (const { asked } of before) queue.enqueue(asked);
  const [one, two, three, four] = [newRun(), newRun(), newRun(), newRun()];

  call("`enqueue`, a new run with 4 before it", () => queue.enqueue(one.asked));
  call("`enqueue`, the same request again", () => queue.enqueue(one.asked));
  call("`enqueue`, the key of another request", () => queue.enqueue({ ...one.asked, arguments_json: "[]" }));
  call("`sync`, the first with a new token, 5 queued", () => queue.sync(pass));
  call("`sync`, 5 queued", () => queue.sync(pass));
  for (const { own } of before) queue.cancel(own);
  call("`getRun`, queued", () => queue.getRun(one.own));
  call("`start`", () => queue.start(one.mine));
  call("`start`, again", () => queue.start(one.mine));
  call("`control`", () => queue.control(one.mine));
  call("`control`, with progress", () =>
    queue.control({ ...one.mine, progress: { state: "running", percent: 1 } }),
  );
  clock.time += 30 * SECOND;
  call("`control`, once in 30 s, with the device's lasting note", () => queue.control(one.mine));
  call("`control`, of another attempt", () => queue.control({ ...one.mine, attempt_id: uuid() }));
  call("`getRun`, running", () => queue.getRun(one.own));
  call("`cancel`, running", () => queue.cancel(one.own));
  call("`complete`", () => queue.complete({ ...one.mine, completion }));
  call("`complete`, again", () => queue.complete({ ...one.mine, completion }));
  call("`complete`, kept out", () =>
    queue.complete({ ...one.mine, completion: { ...completion, result: 2 } }),
  );
  call("`getRun`, ended", () => queue.getRun(one.own));
  call("`getRun`, unknown or another agent's", () => queue.getRun({ ...one.own, command_id: uuid() }));
  call("`cancel`, ended", () => queue.cancel(one.own));
  call("`presence`, one device", () => queue.presence({ agent_id: p.agent_id }));
  call("`sync`, nothing queued: the pass every 20 s", () => queue.sync(pass));
  call("a wake socket is opened", () => queue.connect(device));
  call("`findKey`", () => queue.findKey(two.asked));
  call("`claimKey`, a new key", () => queue.claimKey(two.asked));
  call("`releaseKey`", () => queue.releaseKey(two.asked));
  // The claim runs out, so that the calls below find the alarm as it was.
  clock.time += 600 * SECOND;
  const ring = () => {
    alarmAt = Number.POSITIVE_INFINITY;
    queue.onAlarm();
    due(queue.nextAlarm() ?? Number.POSITIVE_INFINITY);
  };
  ring();
  call("`beginSet`", () => queue.beginSet(device));
  call("`storeDigest`", () => queue.storeDigest({ ...device, sessions_digest: "", set_version: clock.time }));
  queue.enqueue(two.asked);
  call("`cancel`, queued", () => queue.cancel(two.own));
  queue.enqueue(three.asked);
  queue.start(three.mine);
  clock.time += 90 * SECOND;
  call("any call that finds a lease over, on top", () => queue.presence({ agent_id: p.agent_id }));
  call("`control`, of a lost run", () => queue.control(three.mine));
  queue.complete({ ...three.mine, completion });
  call("the alarm, nothing due", ring);
  call("`applyAccess`, a version it has", () => queue.applyAccess(accessOf(p)));
  queue.enqueue(four.asked);
  const lists = { agents: [{ agent_id: p.agent_id, name: "Claude" }], devices: [device] };
  const other = { agent_id: newId("agt", systemRandom), name: "Cursor" };
  call("`applyAccess`, one more agent", () =>
    queue.applyAccess(accessOf(p, { version: 2 * version, ...lists, agents: [...lists.agents, other] })),
  );
  call("`applyAccess`, that agent removed", () =>
    queue.applyAccess(accessOf(p, { version: 2 * version + 1, ...lists })),
  );
  queue.cancel(four.own);
  seed(storage, p, 1_000_001, 1_000_200, clock.time);
  call("the alarm, deleting 200 records", ring);
  return costs;
}

const count = (storage: DurableObjectStorage) =>
  storage.sql.exec<{ n: number }>("select count(*) as n from commands").one().n;

const asTable = (costs: Record<string, Cost>) =>
  [
    "| call | rows read | rows written |",
    "| --- | --- | --- |",
    ...Object.entries(costs).map(([name, { read, written }]) => `| ${name} | ${read} | ${written} |`),
  ].join("\n");

it("costs each call the rows that docs/costs.md says, at 10, 1,000 and 100,000 stored commands", async () => {
  const p = await newProject();
  const tables = await runInDurableObject(p.stub, (_: ProjectQueue, state) => {
    let stored = 0;
    return [10, 1_000, 100_000].map((size, i) => {
      seed(state.storage, p, stored + 1, size, START + 100 * DAY);
      stored = size;
      expect(count(state.storage)).toBeGreaterThanOrEqual(size);
      return asTable(measure(state.storage, p, i + 1));
    });
  });
  expect(tables[1]).toBe(tables[0]);
  expect(tables[2]).toBe(tables[0]);
  const documented = /<!-- measured: object -->\n([\s\S]*?)\n<!-- end -->/.exec(page)?.[1];
  expect(documented && withoutPadding(documented), "docs/costs.md should have the table printed here").toBe(
    tables[0],
  );
});
