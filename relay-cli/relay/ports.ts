import type { RandomSource } from "../../src/protocol/ports.ts";
import type { Engine } from "../engine/contract.ts";
import type { Graph, Store } from "../store/contract.ts";

/** The relay's time. Rules use `monotonic`; `wall` is for records and for noticing that the machine slept. */
export interface RelayClock {
  /** Whole milliseconds since the epoch, as this machine believes. May jump. */
  wall(): number;
  /** Milliseconds that only go forward. */
  monotonic(): number;
  /** Resolves after `ms`, or at once when the signal aborts. Never rejects. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

/** Sends one HTTP request. Rejects if no whole answer came, as `fetch` does. */
export type Transport = (url: string, init: TransportRequest) => Promise<Response>;
interface TransportRequest {
  method: "GET" | "POST" | "DELETE";
  headers: Record<string, string>;
  body?: string;
  redirect: "manual";
  signal: AbortSignal;
}

/** An open wake socket, or one that is on its way there. Nothing of it throws or rejects. */
export interface WakeSocket {
  /** `open`, or why it did not come to that. */
  readonly opened: Promise<"open" | WakeRefusal>;
  /** Resolves with the close's code once it is over; 1006 if the connection just went. */
  readonly ended: Promise<number>;
  /** Resolves when the other end has answered; never, if it does not. */
  ping(): Promise<void>;
  /** Ends it at once, whatever it is in the middle of. */
  end(): void;
}
/** Another answer than the upgrade, or none. */
export type WakeRefusal = { status: number; headers: Headers; body: string } | { error: unknown };
/** Asks for the upgrade. `wake` is called for each wake message. */
export type WakeConnector = (url: string, token: string, wake: () => void) => WakeSocket;

/** Signs the assertion a device proves itself with. */
export interface AssertionSigner {
  /** A JWT for `audience`, from `serverTime` (ms) on, for at most 60 s. */
  sign(audience: string, serverTime: number): Promise<string>;
}

/** Lines for the owner. The texts hold no secrets and no control characters. */
export interface RelayLog {
  info(line: string): void;
  warn(line: string): void;
}

/** Everything the relay reaches the world through. */
export interface RelayPorts {
  clock: RelayClock;
  transport: Transport;
  random: RandomSource;
  store: Store;
  engine: Engine;
  signer: AssertionSigner;
  /** Whether a Graph's file is there to be run. */
  isReady(graph: Graph): boolean;
  log: RelayLog;
  /** Without it the relay finds work by its passes alone. */
  wakeSocket?: WakeConnector;
}

export interface RelayOptions {
  /** Origin of the endpoint, without a slash at its end. */
  serverUrl: string;
  clientVersion: string;
  /** Different sessions that may run side by side. */
  concurrency: number;
}
