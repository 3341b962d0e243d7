import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { createRelay } from "../../relay-cli/relay/loop.ts";
import type { RelayClock, WakeConnector } from "../../relay-cli/relay/ports.ts";
import { createSigner, systemTransport } from "../../relay-cli/relay/system.ts";
import { systemWakeSocket } from "../../relay-cli/relay/wake-socket.ts";
import { openStore } from "../../relay-cli/store/open.ts";
import { VERSION } from "../../relay-cli/version.ts";
import { systemRandom } from "../../src/protocol/ports.ts";
import { AskingAgent } from "../kill/asking-agent.ts";
import { FakeEngine } from "../relay/support/engine.ts";
import { startTestEndpoint, type TestEndpoint } from "../support/endpoint.ts";
import { RealRelay } from "../support/real-relay.ts";
import { signInAgent } from "../support/sign-in.ts";

// A real endpoint, an agent and the relay's own loop and sockets. No timer of that relay ever fires: whatever
// it does after its first passes, it does because it was told.

const TIMELESS: RelayClock = {
  wall: () => Date.now(),
  monotonic: () => 0,
  sleep: (_, signal) =>
    new Promise((done) => {
      if (signal?.aborted) done();
      else signal?.addEventListener("abort", () => done());
    }),
};

let endpoint: TestEndpoint;
let agent: AskingAgent;
let laptop: RealRelay;
beforeAll(async () => {
  endpoint = await startTestEndpoint();
  agent = new AskingAgent(endpoint.url, (await signInAgent(endpoint)).access_token);
  laptop = await RealRelay.pair(endpoint, await endpoint.owner.enrolmentCode(), "Laptop");
});
afterAll(async () => {
  await laptop?.remove();
  await endpoint?.stop();
});

const until = (condition: () => void) => vi.waitFor(condition, { timeout: 30_000, interval: 10 });

/** The relay of the laptop in this process, once its socket is open and the passes of its start are over. */
async function timelessRelay(connect: WakeConnector) {
  const { store } = openStore(laptop.folder);
  const device = store.device.get();
  if (!device) throw new Error("The laptop is not paired");
  const engine = new FakeEngine();
  const calls = { syncs: 0, underWay: 0, sockets: 0 };
  const quiet = () => {};
  const relay = createRelay(
    {
      clock: TIMELESS,
      random: systemRandom,
      store,
      engine,
      signer: createSigner({ ...device, client_version: VERSION }),
      isReady: () => true,
      log: { info: quiet, warn: quiet },
      async transport(url, init) {
        calls.underWay++;
        try {
          return await systemTransport(url, init);
        } finally {
          calls.underWay--;
          if (url.endsWith("/sync")) calls.syncs++;
        }
      },
      wakeSocket(url, token, wake) {
        const socket = connect(url, token, wake);
        void socket.opened.then(() => calls.sockets++);
        return socket;
      },
    },
    { serverUrl: device.server_url, clientVersion: VERSION, concurrency: 1 },
  );
  const ended = relay.run();
  // The first pass, and the one after the socket opened.
  await until(() => expect(calls).toEqual({ syncs: 2, underWay: 0, sockets: 1 }));
  return {
    engine,
    async stop() {
      relay.drain();
      const end = await ended;
      store.close();
      return end;
    },
  };
}

describe("a relay that waits for nothing but its wake socket", () => {
  test("starts a run that is asked for, and stops it when that is asked", async () => {
    const relay = await timelessRelay(systemWakeSocket);
    const { command_id } = await agent.run(laptop.sessionId, "wake-start", { key: "a", ms: 0 });
    await until(() => expect(relay.engine.runs).toHaveLength(1));
    expect(relay.engine.last.request.channel).toBe(`graph:external:${command_id}`);
    expect((await agent.get(command_id)).status).toBe("running");
    await agent.cancel(command_id);
    await until(() => expect(relay.engine.last.stops).toBe(1));
    await vi.waitFor(async () => expect((await agent.get(command_id)).status).toBe("cancelled"), 30_000);
    // It goes on with what is asked for next.
    await agent.run(laptop.sessionId, "wake-next", { key: "b", ms: 0 });
    await until(() => expect(relay.engine.runs).toHaveLength(2));
    relay.engine.last.end();
    expect(await relay.stop()).toEqual({ unsent: 0 });
  });

  test("leaves its place to a newer one, which is told then", async () => {
    let older: { ended: Promise<number> } | undefined;
    const first = await timelessRelay((...words) => {
      const socket = systemWakeSocket(...words);
      older = socket;
      return socket;
    });
    const second = await timelessRelay(systemWakeSocket);
    expect(await older?.ended).toBe(4409);
    await agent.run(laptop.sessionId, "wake-newer", { key: "c", ms: 0 });
    await until(() => expect(second.engine.runs).toHaveLength(1));
    expect(first.engine.runs).toHaveLength(0);
    second.engine.last.end();
    await first.stop();
    await second.stop();
  });
});

test("with --poll-only a run is found by looking for it", async () => {
  const asked = await agent.run(laptop.sessionId, "poll-only", { key: "d", ms: 0 });
  laptop.start(undefined, ["--poll-only"]);
  await vi.waitFor(async () => expect((await agent.get(asked.command_id)).status).toBe("completed"), 60_000);
  await laptop.stop();
});
