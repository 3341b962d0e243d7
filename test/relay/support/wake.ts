import type { WakeConnector, WakeRefusal } from "../../../relay-cli/relay/ports.ts";
import { RELAY_ERRORS, type RelayErrorCode } from "../../../src/protocol/errors.ts";
import { RELAY_PATH } from "../../../src/protocol/relay-api.ts";
import { SERVER } from "./server.ts";

/** One upgrade that a relay asked for. */
export class FakeSocket {
  readonly projectId: string;
  readonly token: string;
  readonly wake: () => void;
  state: "upgrading" | "open" | "over" = "upgrading";
  /** When the relay sent pings, by its monotonic clock. */
  readonly pings: number[] = [];
  answersPings = true;
  readonly opened: Promise<"open" | WakeRefusal>;
  readonly ended: Promise<number>;
  #open: (how: "open" | WakeRefusal) => void = () => {};
  #end: (code: number) => void = () => {};

  constructor(projectId: string, token: string, wake: () => void) {
    this.projectId = projectId;
    this.token = token;
    this.wake = wake;
    this.opened = new Promise((resolve) => {
      this.#open = resolve;
    });
    this.ended = new Promise((resolve) => {
      this.#end = resolve;
    });
  }

  open(): void {
    this.state = "open";
    this.#open("open");
  }

  refuse(refusal: WakeRefusal): void {
    this.#open(refusal);
    this.close(1006);
  }

  close(code: number): void {
    this.state = "over";
    this.#open({ error: new Error("socket hang up") });
    this.#end(code);
  }
}

/** The server's side of all wake sockets. */
export class FakeSockets {
  readonly all: FakeSocket[] = [];
  /** What becomes of an upgrade. `hang`: no answer ever. */
  upgrade: (socket: FakeSocket) => "open" | "hang" | WakeRefusal = () => "open";
  readonly #now: () => number;

  constructor(now: () => number) {
    this.#now = now;
  }

  readonly connect: WakeConnector = (url, token, wake) => {
    const { origin, pathname, searchParams } = new URL(url);
    if (origin !== SERVER || pathname !== `${RELAY_PATH}/wake`) throw new Error(`No socket at ${url}`);
    const socket = new FakeSocket(searchParams.get("project_id") ?? "", token, wake);
    this.all.push(socket);
    const fate = this.upgrade(socket);
    if (fate === "open") socket.open();
    else if (fate !== "hang") socket.refuse(fate);
    return {
      opened: socket.opened,
      ended: socket.ended,
      ping: () => {
        socket.pings.push(this.#now());
        return socket.answersPings ? Promise.resolve() : new Promise(() => {});
      },
      end: () => socket.close(1006),
    };
  };

  get open(): FakeSocket[] {
    return this.all.filter((socket) => socket.state === "open");
  }

  get last(): FakeSocket {
    const socket = this.all.at(-1);
    if (!socket) throw new Error("No socket was asked for");
    return socket;
  }
}

/** The relay API's own refusal of an upgrade. */
export const refusal = (error: RelayErrorCode, headers: Record<string, string> = {}): WakeRefusal => ({
  status: RELAY_ERRORS[error].status,
  headers: new Headers(headers),
  body: JSON.stringify({ error, error_description: RELAY_ERRORS[error].text }),
});
