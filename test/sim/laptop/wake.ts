import type { WakeConnector, WakeRefusal, WakeSocket } from "../../../relay-cli/relay/ports.ts";
import type { Faults } from "../core/faults.ts";
import type { History } from "../core/history.ts";
import type { Scheduler } from "../core/scheduler.ts";
import { ABNORMAL, type SimulatedSocket, socketOf } from "../server/sockets.ts";
import type { Door } from "./network.ts";
import type { Process } from "./process.ts";

interface WakeNetwork {
  scheduler: Scheduler;
  faults: Faults;
  history: History;
  offline: ReadonlySet<string>;
  door: Door;
}

/** Milliseconds that a message takes. */
const TRAVEL = 4;

/**
 * The wake socket port of one process: upgrades that are refused, hang or are cut after a while, wakes that
 * are lost, late or doubled, and a connection that is silent while the laptop has no network.
 */
export function wakeConnector(network: WakeNetwork, process: Process, who: string): WakeConnector {
  return (url, token, wake) => {
    process.check();
    let ended: (code: number) => void = () => {};
    let client: SimulatedSocket | undefined;
    const over = new Promise<number>((resolve) => {
      ended = resolve;
    });
    const opened = open(network, who, url, token).then((answer) => {
      if (!("socket" in answer)) return answer.refusal;
      client = answer.socket;
      client.onMessage = () =>
        carry(network, who, () => process.machine.reach(() => process.alive && wake()));
      client.onClose = (code) => network.scheduler.after(TRAVEL, () => ended(code));
      network.history.add(who, "wake socket is open");
      return "open" as const;
    });
    return {
      opened: process.waitFor(opened),
      ended: process.waitFor(over),
      ping: () =>
        process.waitFor(
          new Promise<void>((resolve) => {
            if (client?.readyState === 1 && !network.offline.has(who))
              network.scheduler.after(TRAVEL, resolve);
          }),
        ),
      end() {
        client?.drop();
        ended(ABNORMAL);
      },
    } satisfies WakeSocket;
  };
}

type Opened = { socket: SimulatedSocket } | { refusal: WakeRefusal };

async function open(
  { scheduler, faults, offline, door }: WakeNetwork,
  who: string,
  url: string,
  token: string,
): Promise<Opened> {
  const fault = faults.strike("upgrade", who);
  await scheduler.sleep(TRAVEL);
  if (fault?.kind === "hangs") return new Promise(() => {});
  if (fault?.kind === "refused" || offline.has(who)) return { refusal: { error: new Error("ECONNRESET") } };
  const headers = { authorization: `Bearer ${token}`, upgrade: "websocket" };
  const response = await door(new Request(url, { headers })).catch(() => new Response("", { status: 500 }));
  const socket = socketOf(response);
  await scheduler.sleep(TRAVEL);
  if (socket === undefined)
    return { refusal: { status: response.status, headers: response.headers, body: await response.text() } };
  if (fault?.kind === "cut") scheduler.after(fault.dice.int(1, 120_000), () => socket.drop());
  return { socket };
}

function carry({ scheduler, faults, offline, history }: WakeNetwork, who: string, deliver: () => void): void {
  const fault = faults.strike("wake", who);
  history.add(who, "⇠ wake", fault && { fault: fault.kind });
  if (fault?.kind === "lost") return;
  const arrive = () => {
    if (!offline.has(who)) deliver();
  };
  scheduler.after(fault?.kind === "late" ? fault.dice.int(100, 60_000) : TRAVEL, arrive);
  if (fault?.kind === "doubled") scheduler.after(fault.dice.int(TRAVEL, 5_000), arrive);
}
