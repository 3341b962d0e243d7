import type { RelayPorts } from "../../../relay-cli/relay/ports.ts";
import type { Store } from "../../../relay-cli/store/contract.ts";

class Crash extends Error {}
const never = () => new Promise<never>(() => {});

/**
 * The same ports for a process that dies at a point: `attempts.begin:before`, `transport.start:after`,
 * `engine.run:before`. From then on nothing it does has an effect, as after `kill -9`: what returned is on
 * the disk, what did not is not.
 */
export function mortal(
  ports: RelayPorts,
  point: string,
  occurrence = 1,
): { ports: RelayPorts; died(): boolean } {
  let left = occurrence;
  let dead = false;
  const pass = (name: string) => {
    if (dead) return;
    if (name === point && --left === 0) dead = true;
  };
  const guard = (name: string) => {
    pass(name);
    if (dead) throw new Crash(name);
  };

  const concern = <T extends object>(prefix: string, methods: T): T =>
    new Proxy(methods, {
      get(target, key) {
        const value = Reflect.get(target, key) as unknown;
        if (typeof value !== "function") return value;
        return (...args: unknown[]) => {
          guard(`${prefix}.${String(key)}:before`);
          const result: unknown = value.apply(target, args);
          guard(`${prefix}.${String(key)}:after`);
          return result;
        };
      },
    });
  const { store } = ports;
  const mortalStore: Store = {
    ...store,
    projects: concern("projects", store.projects),
    attempts: concern("attempts", store.attempts),
    outbox: concern("outbox", store.outbox),
    history: concern("history", store.history),
  };
  return {
    died: () => dead,
    ports: {
      ...ports,
      store: mortalStore,
      clock: {
        ...ports.clock,
        wall: ports.clock.wall,
        monotonic: ports.clock.monotonic,
        sleep: (ms, signal) =>
          dead ? never() : ports.clock.sleep(ms, signal).then(() => (dead ? never() : undefined)),
      },
      transport: async (url, init) => {
        const call = url.split("/").at(-1);
        pass(`transport.${call}:before`);
        if (dead) return never();
        const answer = await ports.transport(url, init);
        pass(`transport.${call}:after`);
        return dead ? never() : answer;
      },
      engine: {
        ...ports.engine,
        run: (request) => {
          pass("engine.run:before");
          if (dead) return never();
          const outcome = ports.engine.run(request);
          pass("engine.run:after");
          return outcome.then((value) => {
            pass("engine.run:ended");
            return dead ? never() : value;
          });
        },
      },
      log: dead ? { info: () => {}, warn: () => {} } : ports.log,
    },
  };
}
