import type { Project } from "../store/contract.ts";
import type { Failure } from "./failure.ts";
import type { RelayPorts } from "./ports.ts";
import type { TokenSource } from "./token.ts";
import { keepSocket, type SocketKeeper } from "./wake-keeper.ts";

/** The wake sockets of the enabled projects. They only save waiting: all they bring, the next pass finds too. */
export interface WakeSockets {
  /** Sees to it that each of these projects has one, and no other. */
  keep(projects: readonly Project[]): void;
  /** The server is within reach again: sockets that were given up are tried at once. */
  reachable(): void;
  /** Closes all of them at once. */
  close(): void;
}

export interface WakeEvents {
  /** There may be something to do for a project. */
  wake(projectId: string): void;
  /** The server will have nothing more to do with this relay. */
  refused(failure: Failure): void;
}

/** Without a connector among the ports there are none, and nothing here does anything. */
export function createWakeSockets(
  ports: RelayPorts,
  tokens: TokenSource,
  serverUrl: string,
  events: WakeEvents,
): WakeSockets {
  const connect = ports.wakeSocket;
  const kept = new Map<string, SocketKeeper>();
  let said = false;

  /** Told once: what does not get through today will not for a while. */
  function gaveUp(text: string): void {
    if (!said) ports.log.info(text);
    said = true;
  }

  return {
    keep(projects) {
      if (!connect) return;
      const wanted = new Set(projects.map((project) => project.project_id));
      for (const [id, keeper] of kept) {
        if (wanted.has(id)) continue;
        keeper.end();
        kept.delete(id);
      }
      for (const id of wanted) {
        if (kept.has(id)) continue;
        const { refused } = events;
        const wake = () => events.wake(id);
        kept.set(
          id,
          keepSocket(ports, { connect, tokens, serverUrl, projectId: id }, { wake, refused, gaveUp }),
        );
      }
    },
    reachable() {
      for (const keeper of kept.values()) keeper.retry();
    },
    close() {
      for (const keeper of kept.values()) keeper.end();
      kept.clear();
    },
  };
}
