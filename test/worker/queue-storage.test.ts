import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import type { ProjectQueueApi } from "../../src/durable/contract.ts";
import { isSetUp, type MigrationBundle, migrate } from "../../src/durable/migrate.ts";
import bundle from "../../src/durable/migrations/migrations.js";
import type { ProjectQueue } from "../../src/durable/project-queue.ts";
import { newProjectId } from "../../src/protocol/ids.ts";
import { systemRandom } from "../../src/protocol/ports.ts";
import { accessOf, newProject, type Project, request, uuid } from "./queue-support.ts";

/** The bundle with one more migration. */
const withNext = (sql: string): MigrationBundle => {
  const idx = bundle.journal.entries.length;
  return {
    journal: { entries: [...bundle.journal.entries, { idx, tag: "next" }] },
    migrations: { ...bundle.migrations, [`m${String(idx).padStart(4, "0")}`]: sql },
  };
};

const inStorage = <T>(stub: Project["stub"], work: (storage: DurableObjectStorage) => T) =>
  runInDurableObject(stub, (_: ProjectQueue, state) => work(state.storage));

describe("a migration", () => {
  it("keeps what is stored, and is done once", async () => {
    const p = await newProject();
    const asked = request(p);
    await p.queue.enqueue(asked);
    const next = withNext(
      "alter table commands add note text;--> statement-breakpoint\nupdate commands set note = 'kept';",
    );
    const rows = await inStorage(p.stub, (storage) => {
      migrate(storage, next);
      migrate(storage, next);
      return storage.sql.exec("select command_id, note from commands").toArray();
    });
    expect(rows).toEqual([{ command_id: asked.command_id, note: "kept" }]);
    await evictDurableObject(p.stub);
    expect(await p.queue.getRun({ ...asked, wait_ms: 0 })).toMatchObject({ status: "queued" });
    expect(await p.queue.enqueue(request(p))).toMatchObject({ created: true });
  });

  it("that fails leaves all as it was, and tells SQLite's own reason", async () => {
    const p = await newProject();
    const columns = await inStorage(p.stub, (storage) => {
      const next = withNext(
        "alter table commands add note text;--> statement-breakpoint\ninsert into nowhere values (1);",
      );
      expect(() => migrate(storage, next)).toThrow("no such table: nowhere");
      return storage.sql.exec("select name from pragma_table_info('commands')").toArray();
    });
    expect(columns).not.toContainEqual({ name: "note" });
    expect(await p.queue.enqueue(request(p))).toMatchObject({ created: true });
  });

  it("that is in the journal and not in the bundle is an error", async () => {
    const p = await newProject();
    await inStorage(p.stub, (storage) => {
      const { journal } = withNext("");
      expect(() => migrate(storage, { ...bundle, journal })).toThrow("migration next is not in the bundle");
    });
  });

  it("makes an empty object's tables at once, and looking whether it did makes none", async () => {
    const stub = env.PROJECT_QUEUE.getByName(newProjectId(systemRandom));
    await inStorage(stub as Project["stub"], (storage) => {
      expect(isSetUp(storage)).toBe(false);
      expect(isSetUp(storage)).toBe(false);
      migrate(storage, bundle);
      expect(isSetUp(storage)).toBe(true);
    });
  });
});

describe("a call that fails half way", () => {
  /** Makes the second statement of a call fail, as a full disk would. */
  const breakTable = (p: Project, event: string) =>
    inStorage(p.stub, (storage) => {
      storage.sql.exec(`create trigger broken before ${event} begin select raise(abort, 'broken'); end`);
    });
  /** Called inside the object: an error that crosses to the caller is reported as unhandled as well. */
  const fails = (p: Project, call: (queue: ProjectQueueApi) => Promise<unknown>) =>
    runInDurableObject(p.stub, (queue: ProjectQueue) => expect(call(queue)).rejects.toThrow());
  const mend = (p: Project) => inStorage(p.stub, (storage) => void storage.sql.exec("drop trigger broken"));
  const stored = (p: Project) =>
    inStorage(p.stub, async (storage) => ({
      commands: storage.sql.exec("select * from commands").toArray(),
      payloads: storage.sql.exec("select * from payloads").toArray(),
      alarm: await storage.getAlarm(),
    }));

  it("queues nothing, and the same call works afterwards", async () => {
    const p = await newProject();
    const asked = request(p);
    await breakTable(p, "insert on payloads");
    await fails(p, (queue) => queue.enqueue(asked));
    expect(await stored(p)).toEqual({ commands: [], payloads: [], alarm: null });
    await mend(p);
    expect(await p.queue.enqueue(asked)).toMatchObject({ created: true });
  });

  it("ends no run without its result, and wakes nobody", async () => {
    const p = await newProject();
    const asked = request(p);
    await p.queue.enqueue(asked);
    const mine = { device_id: p.device_id, command_id: asked.command_id, attempt_id: uuid() };
    await p.queue.start(mine);
    const waiting = p.queue.getRun({ ...asked, wait_ms: 50_000 });
    const before = await stored(p);
    await breakTable(p, "update on payloads");
    const completion = { execution_id: uuid(), status: "completed" as const, result: 1 };
    await fails(p, (queue) => queue.complete({ ...mine, completion }));
    expect(await stored(p)).toEqual(before);
    await mend(p);
    expect(await p.queue.complete({ ...mine, completion })).toMatchObject({ value: { record: "stored" } });
    expect(await waiting).toMatchObject({ status: "completed" });
  });

  it("takes over no half of a change of access", async () => {
    const p = await newProject();
    await breakTable(p, "delete on agents");
    const without = accessOf(p, { version: 2, agents: [] });
    await fails(p, (queue) => queue.applyAccess(without));
    expect(await p.queue.presence({ agent_id: p.agent_id })).not.toBe(undefined);
    await mend(p);
    await p.queue.applyAccess(without);
    expect(await p.queue.presence({ agent_id: p.agent_id })).toBe(undefined);
  });
});
