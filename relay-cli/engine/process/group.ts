import type { ChildProcess, SpawnOptions } from "node:child_process";
import { ENGINE_LIMITS } from "../limits.ts";
import type { EnginePorts } from "../ports.ts";
import type { Guard } from "./guard.ts";
import { GROUP_VARIABLE } from "./strays.ts";

/** How a process ended: its exit code, or the signal that ended it; `error` if it never began. */
export interface ProcessEnd {
  code: number | null;
  signal: NodeJS.Signals | null;
  error?: Error;
}

/** A process in a group of its own, and everything it starts. */
export interface ProcessGroup {
  readonly child: ChildProcess;
  /** Resolves when the first process has ended; others of the group may still be there. */
  readonly ended: Promise<ProcessEnd>;
  /** SIGTERM to the group, and SIGKILL after the grace if it is still there. Once; later calls do nothing. */
  stop(): void;
  /** SIGKILL to the group at once; resolves when nothing of it is left, or after two seconds. */
  destroy(): Promise<void>;
}

const IS_GONE_EVERY = 20;
const GIVE_UP_AFTER = 2_000;

/**
 * Starts a command as the leader of a new process group, known to the guard until the group is gone. `options.env` is its
 * whole environment, but for the mark of the group.
 */
export function spawnGroup(
  ports: Pick<EnginePorts, "processes" | "clock">,
  guard: Guard,
  command: string,
  args: readonly string[],
  options: SpawnOptions,
): ProcessGroup {
  const { processes, clock } = ports;
  const mark = guard.nextMark();
  const child = processes.spawn(command, args, {
    ...options,
    env: { ...options.env, [GROUP_VARIABLE]: mark },
    detached: true,
    windowsHide: true,
  });
  const { pid } = child;
  if (pid !== undefined) guard.add(pid);
  let stopping = false;
  let cancelKill = (): void => {};

  const ended = new Promise<ProcessEnd>((resolve) => {
    child.once("error", (error) => {
      if (child.pid === undefined) resolve({ code: null, signal: null, error });
    });
    child.once("exit", (code, signal) => resolve({ code, signal }));
  });
  /**
   * False if nobody is there to hear it. Never signals the caller's own group: `pid` is the leader of another, or, where
   * the child could not be given one, there is no group of that number and the child alone is told.
   */
  const signal = (name: NodeJS.Signals | 0): boolean => {
    if (pid === undefined || pid <= 1) return false;
    try {
      processes.kill(process.platform === "win32" ? pid : -pid, name);
      return true;
    } catch {
      const isThere = child.exitCode === null && child.signalCode === null;
      return isThere && child.kill(name);
    }
  };
  const killOne = (stray: number): void => {
    try {
      processes.kill(stray, "SIGKILL");
    } catch {
      // It has ended by itself.
    }
  };
  const isGone = (): Promise<void> =>
    new Promise((resolve) => {
      const since = clock.elapsed();
      const look = (): void => {
        if (!signal(0) || clock.elapsed() - since >= GIVE_UP_AFTER) resolve();
        else clock.after(IS_GONE_EVERY, look);
      };
      look();
    });

  return {
    child,
    ended,
    stop() {
      if (stopping) return;
      stopping = true;
      signal("SIGTERM");
      cancelKill = clock.after(ENGINE_LIMITS.stopGraceMilliseconds, () => signal("SIGKILL"));
    },
    async destroy() {
      stopping = true;
      cancelKill();
      signal("SIGKILL");
      for (const stray of await processes.findMarked(mark)) killOne(stray);
      await isGone();
      if (pid !== undefined) guard.remove(pid);
    },
  };
}
