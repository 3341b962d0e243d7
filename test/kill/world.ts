import { setTimeout as wait } from "node:timers/promises";
import { isTerminal } from "../../src/protocol/states.ts";
import { ChaosProxy } from "../support/chaos-proxy.ts";
import { startTestEndpoint, type TestEndpoint } from "../support/endpoint.ts";
import { RealRelay } from "../support/real-relay.ts";
import { signInAgent } from "../support/sign-in.ts";
import { AskingAgent } from "./asking-agent.ts";
import { type Asked, brokenAtRest, brokenNow, type Facts } from "./invariants.ts";
import { listedSessions, projectsBehind, type RelayRecords, type ServerRun, serverRuns } from "./records.ts";

/** How long everything may take to come to rest once it is up: a pause of the relay's is at most a minute. */
const REST_MS = 75_000;
/** How long what a killed relay left behind may still run. */
const LEFTOVER_MS = 5_000;
const LOOK_MS = 100;

/** What a run is to do; without `ms` it waits until it is let go. */
export interface Wish {
  ms?: number;
  fails?: boolean;
  characters?: number;
}

/** A real endpoint, real laptops and an agent, all of which can be killed and are then held to the guarantees. */
export class KillWorld {
  readonly endpoint: TestEndpoint;
  readonly relays: readonly RealRelay[];
  readonly agent: AskingAgent;
  /** Between the agent and the endpoint. */
  readonly agentProxy: ChaosProxy;
  readonly asked: Asked[] = [];
  endpointKills = 0;
  /** Laptops that were not seen at rest since something was asked of them. */
  readonly disturbed = new Set<RealRelay>();

  private constructor(
    endpoint: TestEndpoint,
    relays: readonly RealRelay[],
    agentProxy: ChaosProxy,
    token: string,
  ) {
    this.endpoint = endpoint;
    this.relays = relays;
    this.agentProxy = agentProxy;
    this.agent = new AskingAgent(agentProxy.url, token);
  }

  /** Starts an endpoint with so many laptops, each of which has told what it shares. Their relays are not started. */
  static async open(laptops: number): Promise<KillWorld> {
    const endpoint = await startTestEndpoint();
    const { access_token } = await signInAgent(endpoint);
    const agentProxy = await ChaosProxy.open(endpoint.url, new URL(endpoint.url).host);
    const relays: RealRelay[] = [];
    for (let n = 1; n <= laptops; n++)
      relays.push(await RealRelay.pair(endpoint, await endpoint.owner.enrolmentCode(), `Laptop ${n}`));
    return new KillWorld(endpoint, relays, agentProxy, access_token);
  }

  /** Asks for a run on a laptop. */
  async ask(relay: RealRelay, wish: Wish = {}): Promise<Asked> {
    const key = `run-${String(this.asked.length + 1).padStart(6, "0")}`;
    const { fails = false, characters = 10 } = wish;
    const { sessionId } = relay;
    const asked: Asked = { key, sessionId, fails, characters, tickets: new Set() };
    this.asked.push(asked);
    this.disturbed.add(relay);
    await this.#askFor(asked, { ...wish, characters, key });
    return asked;
  }

  async #askFor(asked: Asked, args: object): Promise<void> {
    asked.tickets.add((await this.agent.run(asked.sessionId, asked.key, args)).command_id);
    this.#repeats.set(asked, () => this.#askFor(asked, args));
  }
  /** Asks once more with the same key, for a run whose answers were not looked at since it ended. */
  readonly #repeats = new Map<Asked, () => Promise<void>>();

  /** Has a run cancelled, once its ticket is there. */
  async cancel(asked: Asked): Promise<void> {
    const [command_id] = asked.tickets;
    if (command_id !== undefined) asked.cancel = await this.agent.cancel(command_id);
  }

  run(asked: Asked): ServerRun | undefined {
    return serverRuns(this.endpoint.state).find(({ key }) => key === asked.key);
  }

  async killEndpoint(): Promise<void> {
    this.endpointKills++;
    await this.endpoint.kill9();
  }

  /** What is broken on these laptops at this moment. */
  brokenNow(relays: readonly RealRelay[] = [...this.disturbed]): string[] {
    return brokenNow(this.#facts(relays));
  }

  /** Whether nothing is under way for these laptops, nor waits. */
  isAtRest(relays: readonly RealRelay[]): boolean {
    const { server, relays: found } = this.#facts(relays);
    return server.every((run) => isTerminal(run.state)) && found.every(({ now }) => !hasOpenItems(now));
  }

  /** Starts the relays that have something to do, waits until everything is at rest, and says what is broken then. */
  async brokenAtRest(relays: readonly RealRelay[] = [...this.disturbed]): Promise<string[]> {
    const waiting = serverRuns(this.endpoint.state).filter((run) => !isTerminal(run.state));
    for (const relay of relays)
      if (waiting.some((run) => run.session_id === relay.sessionId) || hasOpenItems(relay.records()))
        relay.start();
    const rest = () =>
      until("everything is at rest", () => this.isAtRest(relays), REST_MS).then(
        () => [],
        (error: Error) => [error.message],
      );
    const restless: string[] = await rest();
    const told = [];
    for (const asked of [...this.#repeats.keys()].filter((one) => isOf(relays, one.sessionId))) {
      await this.#repeats.get(asked)?.();
      this.#repeats.delete(asked);
      told.push(...(await this.#untrueAnswer(asked)));
    }
    // A request that was lost with the endpoint has its run only now.
    restless.push(...(await rest()));
    for (const relay of relays) this.disturbed.delete(relay);
    const facts = this.#facts(relays);
    return [...restless, ...brokenNow(facts), ...brokenAtRest(facts), ...told, ...this.#untrueLists(relays)];
  }

  /** Processes that outlive the relays, once those are killed. */
  async leftovers(relays: readonly RealRelay[]): Promise<string[]> {
    await Promise.all(relays.map((relay) => relay.kill9()));
    const left = () => relays.flatMap((relay) => relay.leftovers());
    await until("nothing is left", () => left().length === 0, LEFTOVER_MS).catch(() => {});
    return left();
  }

  async close(): Promise<void> {
    await Promise.all(this.relays.map((relay) => relay.remove()));
    await this.agentProxy.close();
    await this.endpoint.stop();
  }

  #facts(relays: readonly RealRelay[]): Facts {
    return {
      asked: this.asked.filter((one) => isOf(relays, one.sessionId)),
      server: serverRuns(this.endpoint.state).filter((run) => isOf(relays, run.session_id)),
      relays: relays.map((relay) => ({
        now: relay.records(),
        deaths: relay.deaths,
        marks: relay.marks(),
      })),
    };
  }

  /** Whether the agent is told anything but what the object holds. */
  async #untrueAnswer(asked: Asked): Promise<string[]> {
    const [command_id] = asked.tickets;
    if (command_id === undefined)
      return [`an agent that asks again gets an answer: ${asked.key} has no ticket`];
    const told = await this.agent.get(command_id);
    const run = this.run(asked);
    return told.status === run?.state && told.execution_id === run.outcome?.execution_id
      ? []
      : [
          `an answer is true: ${asked.key} is ${run?.state} in the object, and the agent is told ${told.status}`,
        ];
  }

  #untrueLists(relays: readonly RealRelay[]): string[] {
    const listed = listedSessions(this.endpoint.state);
    const missing = relays.filter(({ sessionId }) => !listed.includes(sessionId));
    return [
      ...missing.map(({ sessionId }) => `the list is true: ${sessionId} is not in it`),
      ...projectsBehind(this.endpoint.state).map((id) => `the object of ${id} is behind D1`),
    ];
  }
}

const isOf = (relays: readonly RealRelay[], sessionId: string): boolean =>
  relays.some((relay) => relay.sessionId === sessionId);
const hasOpenItems = ({ outbox, attempts }: RelayRecords): boolean =>
  outbox.length > 0 || attempts.some(({ state }) => state !== "ended");

/** Waits until a condition holds. */
export async function until(what: string, condition: () => boolean, ms = 30_000): Promise<void> {
  const end = performance.now() + ms;
  while (!condition()) {
    if (performance.now() > end) throw new Error(`In ${ms / 1000} s it did not come to pass that ${what}`);
    await wait(LOOK_MS);
  }
}
