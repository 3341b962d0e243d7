import { RELAY_PATH, tokenResponse } from "../../src/protocol/relay-api.ts";
import type { Answer } from "./failure.ts";
import { exchange } from "./http.ts";
import type { AssertionSigner, RelayClock, RelayLog, Transport } from "./ports.ts";

const DEADLINE_MS = 15_000;
/** A token is renewed this long before its end. */
const MARGIN_MS = 60_000;

/** The device's access token: held in memory alone, renewed when it is about to end. */
export interface TokenSource {
  get(): Promise<Answer<string>>;
  /** A token other than this one, which the server refused. */
  renew(refused: string): Promise<Answer<string>>;
}

export interface TokenPorts {
  clock: RelayClock;
  transport: Transport;
  signer: AssertionSigner;
  log: RelayLog;
}

export function createTokenSource(ports: TokenPorts, serverUrl: string): TokenSource {
  const { clock } = ports;
  const endpoint = `${serverUrl}${RELAY_PATH}/token`;
  let held: { token: string; until: number } | undefined;
  let underWay: Promise<Answer<string>> | undefined;
  /** How far the server's clock is ahead of this machine's, as last learnt. */
  let ahead = 0;

  async function request(): Promise<Answer<{ access_token: string; expires_in: number }>> {
    let assertion: string;
    try {
      assertion = await ports.signer.sign(endpoint, clock.wall() + ahead);
    } catch {
      const text = "The device's key cannot be used. Pair this machine again with `graph-relay login`.";
      return { ok: false, failure: { kind: "stop", code: "assertion_invalid", text } };
    }
    return exchange(ports, {
      method: "POST",
      url: endpoint,
      body: { grant_type: "urn:ietf:params:oauth:grant-type:jwt-bearer", assertion },
      answer: tokenResponse,
      deadlineMs: DEADLINE_MS,
    });
  }

  async function fetchToken(): Promise<Answer<string>> {
    const asked = clock.monotonic();
    let answer = await request();
    if (!answer.ok && answer.failure.code === "clock_skew" && answer.failure.serverTime !== undefined) {
      ahead = answer.failure.serverTime - clock.wall();
      const seconds = Math.round(Math.abs(ahead) / 1_000);
      ports.log.warn(
        `This machine's clock is ${seconds} s ${ahead > 0 ? "behind" : "ahead of"} the server's. Going on with the server's time; set the clock right.`,
      );
      answer = await request();
    }
    if (!answer.ok) {
      // A token that is refused at its source is no reason to ask for another one at once.
      const { failure } = answer;
      return { ok: false, failure: failure.kind === "renew" ? { ...failure, kind: "retry" } : failure };
    }
    const { access_token, expires_in } = answer.value;
    const life = Math.max(expires_in * 1_000 - MARGIN_MS, (expires_in * 1_000) / 2);
    held = { token: access_token, until: asked + life };
    return { ok: true, value: access_token };
  }

  /** However many need a token, one request fetches it. */
  const fetchOnce = () => {
    underWay ??= fetchToken().finally(() => {
      underWay = undefined;
    });
    return underWay;
  };

  return {
    async get() {
      if (held && clock.monotonic() < held.until) return { ok: true, value: held.token };
      return fetchOnce();
    },
    async renew(refused) {
      if (held && held.token !== refused && clock.monotonic() < held.until)
        return { ok: true, value: held.token };
      return fetchOnce();
    },
  };
}
