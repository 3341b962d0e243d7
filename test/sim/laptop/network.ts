import type { Transport, WakeConnector } from "../../../relay-cli/relay/ports.ts";
import type { Faults } from "../core/faults.ts";
import type { History } from "../core/history.ts";
import type { Scheduler } from "../core/scheduler.ts";
import type { Process } from "./process.ts";
import { wakeConnector } from "./wake.ts";

/** The server's door: a request in, an answer out. Rejects only if the server's process went. */
export type Door = (request: Request) => Promise<Response>;

interface WireAnswer {
  status: number;
  headers: Record<string, string>;
  body: string;
  /** The connection broke in the middle of the body. */
  cut?: boolean;
}

const HTML = "<!doctype html><title>Sign in to Airport Wi-Fi</title><p>Accept our terms to go on.</p>";

/**
 * The network between one laptop and the server. Requests and answers are delayed, so that they overtake
 * one another, and may be lost, doubled, cut off, or answered by something that is not our server.
 */
export class Network {
  readonly #scheduler: Scheduler;
  readonly #faults: Faults;
  readonly #history: History;
  readonly #door: Door;
  /** Laptops without any network now. */
  readonly offline = new Set<string>();

  constructor(scheduler: Scheduler, faults: Faults, history: History, door: Door) {
    this.#scheduler = scheduler;
    this.#faults = faults;
    this.#history = history;
    this.#door = door;
  }

  /** The transport port of one process on the laptop `who`. */
  transport(process: Process, who: string): Transport {
    return (url, init) => {
      process.check();
      const aborted = new Promise<never>((_resolve, reject) => {
        const fail = () => reject(init.signal.reason ?? new DOMException("aborted", "AbortError"));
        if (init.signal.aborted) fail();
        else init.signal.addEventListener("abort", fail, { once: true });
      });
      aborted.catch(() => {});
      const answered = this.#exchange(who, url, init).then(toResponse);
      answered.catch(() => {});
      return process.waitFor(Promise.race([answered, aborted]));
    };
  }

  /** The wake socket port of one process on the laptop `who`. */
  wakeSocket(process: Process, who: string): WakeConnector {
    const network = {
      scheduler: this.#scheduler,
      faults: this.#faults,
      history: this.#history,
      offline: this.offline,
      door: this.#door,
    };
    return wakeConnector(network, process, who);
  }

  async #exchange(
    who: string,
    url: string,
    init: { method: string; headers: Record<string, string>; body?: string },
  ) {
    const fault = this.#faults.strike("request", who);
    const path = new URL(url).pathname.replace(/^\/external-assistants\/graph-relays/, "");
    const body = init.body === undefined ? undefined : summary(init.body);
    this.#history.add(who, `→ ${init.method} ${path}`, fault ? { fault: fault.kind, body } : body);
    if (this.offline.has(who)) return this.#refused(20);
    switch (fault?.kind) {
      case "lost":
        return new Promise<never>(() => {});
      case "refused":
        return this.#refused(fault.dice.int(1, 3_000));
      case "html":
        return this.#late(fault.dice.int(10, 500), {
          status: 200,
          headers: { "content-type": "text/html" },
          body: HTML,
        });
      case "too_many":
        return this.#late(20, {
          status: 429,
          headers: { "retry-after": `${fault.dice.int(1, 40)}` },
          body: "slow down",
        });
      case "bad_gateway":
        return this.#late(20, {
          status: 502,
          headers: { "content-type": "text/html" },
          body: "<h1>502</h1>",
        });
      case "delayed":
        await this.#scheduler.sleep(fault.dice.int(500, fault.dice.pick([10_000, 90_000])));
        break;
      case "doubled": {
        const second = this.#again(who, url, init, fault.dice.pick([0, 1, 50, fault.dice.int(1, 60_000)]));
        // A proxy that repeats a request brings the answer to either.
        if (fault.dice.chance(0.5)) break;
        void this.#serve(who, url, init);
        return this.#bring(who, path, await second);
      }
    }
    const answer = await this.#serve(who, url, init);
    return this.#bring(who, path, answer);
  }

  /** Carries the answer back, if it arrives. */
  async #bring(who: string, path: string, answer: WireAnswer): Promise<WireAnswer> {
    const fault = this.#faults.strike("reply", who);
    this.#history.add(
      who,
      `← ${answer.status} ${path}`,
      fault ? { fault: fault.kind } : summary(answer.body),
    );
    if (this.offline.has(who)) return this.#refused(20);
    switch (fault?.kind) {
      case "lost":
        return new Promise<never>(() => {});
      case "reset":
        return this.#refused(fault.dice.int(1, 500));
      case "cut":
        return { ...answer, cut: true };
      case "torn":
        return { ...answer, body: answer.body.slice(0, Math.floor(answer.body.length / 2)) };
      case "error":
        return { status: 500, headers: {}, body: "internal error" };
      case "delayed":
        await this.#scheduler.sleep(fault.dice.int(500, fault.dice.pick([10_000, 90_000])));
        break;
    }
    return answer;
  }

  async #serve(
    who: string,
    url: string,
    init: { method: string; headers: Record<string, string>; body?: string },
  ) {
    const request = new Request(url, {
      method: init.method,
      headers: init.headers,
      ...(init.body === undefined ? {} : { body: init.body }),
    });
    await this.#scheduler.sleep(3);
    try {
      const response = await this.#door(request);
      return {
        status: response.status,
        headers: Object.fromEntries(response.headers),
        body: await response.text(),
      };
    } catch (error) {
      this.#history.add("server", "threw", String(error));
      return { status: 500, headers: {}, body: "error code: 1101", who };
    }
  }

  /** The same request once more: a proxy that repeats what it sent. */
  async #again(
    who: string,
    url: string,
    init: { method: string; headers: Record<string, string>; body?: string },
    after: number,
  ) {
    await this.#scheduler.sleep(after);
    const answer = await this.#serve(who, url, init);
    this.#history.add(who, `⇇ ${answer.status} to the repeated request`);
    return answer;
  }

  async #late(ms: number, answer: WireAnswer): Promise<WireAnswer> {
    await this.#scheduler.sleep(ms);
    return answer;
  }

  async #refused(ms: number): Promise<never> {
    await this.#scheduler.sleep(ms);
    throw new TypeError("fetch failed", { cause: new Error("ECONNRESET") });
  }
}

function toResponse({ status, headers, body, cut }: WireAnswer): Response {
  if (!cut) return new Response(status === 204 ? null : body, { status, headers });
  const half = new TextEncoder().encode(body.slice(0, Math.ceil(body.length / 2)));
  const stream = new ReadableStream({
    start(controller) {
      controller.enqueue(half);
      controller.error(new TypeError("terminated"));
    },
  });
  return new Response(stream, { status, headers });
}

/** A message for the history: short, without tokens. */
function summary(body: string): unknown {
  return body.length > 400 ? `${body.slice(0, 200)}… ${body.length} characters` : body;
}
