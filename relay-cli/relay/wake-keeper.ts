import { LIMITS } from "../../src/protocol/limits.ts";
import { RELAY_PATH } from "../../src/protocol/relay-api.ts";
import { WAKE_CLOSES } from "../../src/protocol/wake.ts";
import { createBackoff } from "./backoff.ts";
import { type Answer, type Failure, failureOf, networkFailure } from "./failure.ts";
import type { RelayPorts, WakeConnector, WakeRefusal, WakeSocket } from "./ports.ts";
import { createBell } from "./signal.ts";
import type { TokenSource } from "./token.ts";
import { watchSocket } from "./wake-health.ts";

/** How long an upgrade may take, in milliseconds. */
const UPGRADE_MS = 15_000;
/** After a cut the first pause is anything up to this: a server that restarts cuts off everybody at once. */
const FIRST_PAUSE_MS = 30_000;
/** Upgrades that fail one after the other before the network is taken to let none through. */
const UPGRADES_TRIED = 2;
/** How long until a socket that was given up is tried again. */
const GIVEN_UP_MS = 15 * 60_000;

/** What opens sockets for one project. */
interface Door {
  connect: WakeConnector;
  tokens: TokenSource;
  serverUrl: string;
  projectId: string;
}

interface KeeperEvents {
  wake(): void;
  refused(failure: Failure): void;
  /** For the owner: why there is no socket for now. */
  gaveUp(text: string): void;
}

/** Keeps a wake socket open to one project, with pauses, until `end`. */
export interface SocketKeeper {
  /** Plain calls get through: if the socket was given up, it is tried at once. */
  retry(): void;
  end(): void;
}

export function keepSocket(
  ports: Pick<RelayPorts, "clock" | "random">,
  door: Door,
  events: KeeperEvents,
): SocketKeeper {
  const { clock } = ports;
  const ended = new AbortController();
  const bell = createBell(clock);
  const backoff = createBackoff(ports.random, FIRST_PAUSE_MS);
  const url = `${door.serverUrl}${RELAY_PATH}/wake?${new URLSearchParams({ project_id: door.projectId })}`;
  let failedUpgrades = 0;
  /** The socket is not to be had, for a reason that may be over when plain calls get through again. */
  let blocked = false;

  /** One upgrade with this token. */
  async function open(token: string): Promise<Answer<WakeSocket>> {
    if (ended.signal.aborted) return { ok: false, failure: networkFailure("the relay ended") };
    const socket = door.connect(url, token, events.wake);
    const end = () => socket.end();
    ended.signal.addEventListener("abort", end);
    void socket.ended.then(() => ended.signal.removeEventListener("abort", end));
    const answered = new AbortController();
    void clock.sleep(UPGRADE_MS, answered.signal).then(() => {
      if (!answered.signal.aborted) socket.end();
    });
    const opened = await socket.opened;
    answered.abort();
    return opened === "open" ? { ok: true, value: socket } : { ok: false, failure: refusalOf(opened) };
  }

  /** An upgrade, once more with a new token if this one is too old to be accepted, or older than the project. */
  async function upgrade(): Promise<Answer<WakeSocket>> {
    const token = await door.tokens.get();
    if (!token.ok) return token;
    const first = await open(token.value);
    if (first.ok || (first.failure.kind !== "renew" && first.failure.code !== "project_not_found"))
      return first;
    const renewed = await door.tokens.renew(token.value);
    return renewed.ok ? open(renewed.value) : renewed;
  }

  /** One socket from the upgrade to its end; the pause until the next. */
  async function once(): Promise<number> {
    const upgraded = await upgrade();
    if (ended.signal.aborted) return 0;
    if (!upgraded.ok) return afterRefusal(upgraded.failure);
    failedUpgrades = 0;
    backoff.succeeded(clock.monotonic());
    // What came while there was no socket.
    events.wake();
    const { code, slept } = await watchSocket(ports, upgraded.value);
    return slept ? 0 : afterClose(code);
  }

  function afterRefusal(failure: Failure): number {
    if (failure.kind === "stop") events.refused(failure);
    if (failure.kind === "permanent") return giveUp(failure.text);
    const ofTheServer = !["network", "foreign", "unknown"].includes(failure.code);
    if (!ofTheServer && ++failedUpgrades >= UPGRADES_TRIED) return giveUp(failure.text);
    return backoff.failed(clock.monotonic(), failure.retryAfterMs);
  }

  function afterClose(code: number): number {
    if (code === WAKE_CLOSES.replaced.code) {
      events.gaveUp(`Another relay of this device has taken the wake socket. ${POLLING}`);
      return GIVEN_UP_MS;
    }
    // The pass is told for sure what became of the device or the project.
    if (code === WAKE_CLOSES.device_removed.code || code === WAKE_CLOSES.project_not_found.code)
      events.wake();
    return backoff.failed(clock.monotonic());
  }

  function giveUp(text: string): number {
    events.gaveUp(`The wake socket does not get through. ${text} ${POLLING}`);
    blocked = true;
    return GIVEN_UP_MS;
  }

  async function loop(): Promise<void> {
    while (!ended.signal.aborted) {
      const pause = await once();
      if (!ended.signal.aborted) await bell.wait(pause);
      blocked = false;
    }
  }

  void loop();
  return {
    retry() {
      if (!blocked) return;
      failedUpgrades = 0;
      bell.ring();
    },
    end() {
      ended.abort();
      bell.ring();
    },
  };
}

const POLLING = `New work is found by looking for it every ${LIMITS.pollSeconds} s.`;

const refusalOf = (refusal: WakeRefusal): Failure =>
  "error" in refusal
    ? networkFailure(refusal.error)
    : failureOf(refusal.status, refusal.headers, refusal.body);
