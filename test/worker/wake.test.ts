import { evictDurableObject, listDurableObjectIds, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { wakeRequest } from "../../src/durable/contract.ts";
import type { ProjectQueue } from "../../src/durable/project-queue.ts";
import { newId, newProjectId } from "../../src/protocol/ids.ts";
import { systemRandom } from "../../src/protocol/ports.ts";
import { RELAY_PATH } from "../../src/protocol/relay-api.ts";
import { WAKE_CLIENT_CHARACTERS, WAKE_CLOSES, WAKE_MESSAGE } from "../../src/protocol/wake.ts";
import { accessOf, newProject, type Project, request, START, uuid } from "./queue-support.ts";
import {
  addDevice,
  addProject,
  callTool,
  cancel,
  fetchRelay,
  giveAccess,
  newWorld,
  ORIGIN,
  run,
  TestDevice,
  token,
} from "./support/endpoint.ts";

afterEach(() => vi.useRealTimers());

/** A laptop's end of a socket. What arrives is kept from the first moment on. */
class Ear {
  readonly socket: WebSocket;
  readonly closed: Promise<number>;
  readonly #heard: unknown[] = [];
  #next: (() => void) | undefined;

  constructor(response: Response) {
    if (!response.webSocket) throw new Error(`no socket: ${response.status}`);
    this.socket = response.webSocket;
    this.socket.addEventListener("message", ({ data }) => {
      this.#heard.push(data);
      this.#next?.();
    });
    this.closed = new Promise((resolve) =>
      this.socket.addEventListener("close", ({ code }) => resolve(code)),
    );
    this.socket.accept();
  }

  /** All that was heard, once there is something. */
  async heard(): Promise<unknown[]> {
    if (this.#heard.length === 0)
      await new Promise<void>((resolve) => {
        this.#next = resolve;
      });
    return this.#heard.splice(0);
  }
}

/** The upgrade as a relay asks for it. */
const upgrade = (project_id: string, headers: Record<string, string>, path = "/wake") =>
  fetchRelay(
    new Request(`${ORIGIN}${RELAY_PATH}${path}?project_id=${project_id}`, {
      headers: { upgrade: "websocket", ...headers },
    }),
  );
const bearer = ({ auth }: TestDevice) => ({ authorization: `Bearer ${token(auth)}` });
const listen = async (device: TestDevice, project_id: string) =>
  new Ear(await upgrade(project_id, bearer(device)));

/** A socket straight at the object. */
const listenAt = async (p: Project, device_id = p.device_id) =>
  new Ear(await p.stub.fetch(wakeRequest(device_id)));
const hibernate = (p: Project) => evictDurableObject(p.stub, { webSockets: "hibernate" });

describe("the upgrade", () => {
  it("is refused without a token as every other call is, before anything is looked up", async () => {
    const { project_id } = await newWorld();
    const none = await upgrade(project_id, {});
    const other = await fetchRelay(new Request(`${ORIGIN}${RELAY_PATH}/sync`, { method: "POST" }));
    expect([none.status, other.status]).toEqual([401, 401]);
    const [one, two] = [await none.json<object>(), await other.json<object>()];
    expect({ ...one, server_time: 0 }).toEqual({ ...two, server_time: 0 });
  });

  it("takes no token from the address", async () => {
    const { project_id, device } = await newWorld();
    const asked = await upgrade(`${project_id}&access_token=${token(device.auth)}`, {});
    expect(asked.status).toBe(401);
  });

  it("answers for another owner's project, byte for byte, as for none, and opens no object", async () => {
    const { device } = await newWorld();
    const foreign = await newWorld();
    const objects = (await listDurableObjectIds(env.PROJECT_QUEUE)).length;
    const answers = [];
    for (const id of [foreign.project_id, newProjectId(systemRandom), "", "prj_x", "../../mcp"]) {
      const answer = await upgrade(encodeURIComponent(id), bearer(device));
      answers.push([answer.status, await answer.text(), [...answer.headers].sort()]);
    }
    expect(answers[0]?.[0]).toBe(404);
    expect(new Set(answers.map((answer) => JSON.stringify(answer))).size).toBe(1);
    expect(await listDurableObjectIds(env.PROJECT_QUEUE)).toHaveLength(objects);
  });

  it("is refused when it is none", async () => {
    const { project_id, device } = await newWorld();
    const answer = await upgrade(project_id, { ...bearer(device), upgrade: "h2c" });
    expect([answer.status, await answer.json<object>()]).toEqual([
      400,
      expect.objectContaining({ error: "invalid_request" }),
    ]);
  });

  it("is refused for a device that was removed, whatever its token says", async () => {
    const { account_id, project_id } = await newWorld();
    const removed = new TestDevice(account_id, newId("dev", systemRandom), [project_id]);
    const answer = await upgrade(project_id, bearer(removed));
    expect(await answer.json<object>()).toMatchObject({ error: "device_removed" });
  });

  it("of a device that the object was not told of yet tells it, and asks to come again", async () => {
    const { account_id, project_id, agent } = await newWorld();
    await giveAccess(project_id, [agent], []);
    const added = new TestDevice(account_id, await addDevice(account_id), [project_id]);
    const answer = await upgrade(project_id, bearer(added));
    expect([answer.status, answer.headers.get("retry-after")]).toEqual([503, "5"]);
  });

  it("of a project whose object was never set up is refused", async () => {
    const { account_id, device_id } = await newWorld();
    const empty = await addProject(account_id);
    const answer = await upgrade(empty, bearer(new TestDevice(account_id, device_id, [empty])));
    expect(await answer.json<object>()).toMatchObject({ error: "project_not_found" });
  });
});

describe("an open socket", () => {
  it("is told of a new run, of a stop, and of nothing else", async () => {
    const { device, project_id, agent, session_id } = await newWorld();
    const ear = await listen(device, project_id);
    const { structuredContent } = await run(agent, session_id);
    expect(await ear.heard()).toEqual([WAKE_MESSAGE]);
    const command_id = String(structuredContent.command_id);
    const attempt = uuid();
    await device.start(command_id, attempt);
    await callTool(agent, "get_graph_run", { command_id, wait_seconds: 0 });
    await cancel(agent, command_id);
    expect(await ear.heard(), "the stop, and no word before it").toEqual([WAKE_MESSAGE]);
    await cancel(agent, command_id);
    await device.complete(command_id, attempt, { status: "cancelled" });
    const queued = String((await run(agent, session_id)).structuredContent.command_id);
    expect(await ear.heard(), "the next run, and no word before it").toEqual([WAKE_MESSAGE]);
    await cancel(agent, queued);
    await run(agent, session_id);
    expect(await ear.heard(), "a run cancelled in the queue is no news").toEqual([WAKE_MESSAGE]);
  });

  it("hears nothing of another device's runs", async () => {
    const p = await newProject();
    const other = newId("dev", systemRandom);
    const devices = [{ device_id: p.device_id }, { device_id: other }];
    await p.queue.applyAccess(accessOf(p, { version: 2, devices }));
    const [mine, theirs] = [await listenAt(p), await listenAt(p, other)];
    await p.queue.enqueue(request(p));
    await p.queue.enqueue(request(p, { device_id: other }));
    expect(await theirs.heard()).toEqual([WAKE_MESSAGE]);
    expect(await mine.heard()).toEqual([WAKE_MESSAGE]);
  });

  it("outlives the object's sleep, and is told after it", async () => {
    const p = await newProject();
    const ear = await listenAt(p);
    await hibernate(p);
    await p.queue.enqueue(request(p));
    expect(await ear.heard()).toEqual([WAKE_MESSAGE]);
  });

  it("keeps the object from nothing: no storage, no alarm", async () => {
    const p = await newProject();
    const before = await runInDurableObject(
      p.stub,
      (_: ProjectQueue, { storage }) => storage.sql.databaseSize,
    );
    await listenAt(p);
    const [after, alarm] = await runInDurableObject(p.stub, async (_: ProjectQueue, { storage }) => [
      storage.sql.databaseSize,
      await storage.getAlarm(),
    ]);
    expect([after, alarm]).toEqual([before, null]);
  });

  it("is closed for a newer one of the device, also across the object's sleep; then the newer one hears", async () => {
    const p = await newProject();
    const first = await listenAt(p);
    const second = await listenAt(p);
    expect(await first.closed).toBe(WAKE_CLOSES.replaced.code);
    await hibernate(p);
    const third = await listenAt(p);
    expect(await second.closed).toBe(WAKE_CLOSES.replaced.code);
    await p.queue.enqueue(request(p));
    expect(await third.heard()).toEqual([WAKE_MESSAGE]);
  });

  it("is closed when its device is removed, and only then", async () => {
    const p = await newProject();
    const other = newId("dev", systemRandom);
    const lists = (version: number, ...ids: string[]) =>
      p.queue.applyAccess(accessOf(p, { version, devices: ids.map((device_id) => ({ device_id })) }));
    await lists(3, p.device_id, other);
    const [removed, kept] = [await listenAt(p), await listenAt(p, other)];
    await lists(2, other);
    await hibernate(p);
    await p.queue.enqueue(request(p));
    expect(await removed.heard(), "an older list changes nothing").toEqual([WAKE_MESSAGE]);
    await lists(4, other);
    expect(await removed.closed).toBe(WAKE_CLOSES.device_removed.code);
    await p.queue.enqueue(request(p, { device_id: other }));
    expect(await kept.heard()).toEqual([WAKE_MESSAGE]);
  });

  it("is told when an agent whose run is under way loses its access", async () => {
    const p = await newProject();
    const asked = request(p);
    await p.queue.enqueue(asked);
    await p.queue.start({ device_id: p.device_id, command_id: asked.command_id, attempt_id: uuid() });
    const ear = await listenAt(p);
    await p.queue.applyAccess(accessOf(p, { version: 2, agents: [] }));
    expect(await ear.heard()).toEqual([WAKE_MESSAGE]);
  });

  it("is closed when its project is destroyed", async () => {
    const p = await newProject();
    const ear = await listenAt(p);
    await p.queue.destroy();
    expect(await ear.closed).toBe(WAKE_CLOSES.project_not_found.code);
  });

  it("is not listened to, and closed if the laptop says much", async () => {
    const p = await newProject();
    const ear = await listenAt(p);
    ear.socket.send("x".repeat(WAKE_CLIENT_CHARACTERS));
    ear.socket.send(new ArrayBuffer(WAKE_CLIENT_CHARACTERS));
    await p.queue.enqueue(request(p));
    expect(await ear.heard()).toEqual([WAKE_MESSAGE]);
    await hibernate(p);
    ear.socket.send("x".repeat(WAKE_CLIENT_CHARACTERS + 1));
    expect(await ear.closed).toBe(WAKE_CLOSES.message_too_big.code);
  });

  it("that the laptop closed is no reason for a run not to be queued", async () => {
    const p = await newProject();
    const ear = await listenAt(p);
    ear.socket.close(1000);
    await ear.closed;
    expect(await p.queue.enqueue(request(p))).toMatchObject({ ok: true, created: true });
  });
});

describe("an open socket and whether its desktop is online", () => {
  const HOUR = 3_600_000;
  const presence = async (p: Project) => (await p.queue.presence({ agent_id: p.agent_id }))?.[p.device_id];
  const at = (milliseconds: number) => vi.useFakeTimers({ toFake: ["Date"], now: START + milliseconds });

  it("makes it online for an object that has slept, however long ago its last note", async () => {
    at(0);
    const p = await newProject();
    const ear = await listenAt(p);
    expect(await presence(p)).toEqual({ online: true, last_seen_at: START });
    await hibernate(p);
    at(HOUR);
    expect(await presence(p)).toEqual({ online: true, last_seen_at: START + HOUR });
    await hibernate(p);
    ear.socket.close(1000);
    await ear.closed;
    expect(await presence(p)).toEqual({ online: false, last_seen_at: null });
  });

  it("counts for less than that the object, awake, has not heard of the desktop for a minute", async () => {
    at(0);
    const p = await newProject();
    await listenAt(p);
    at(61_000);
    expect(await presence(p)).toEqual({ online: false, last_seen_at: START });
  });
});
