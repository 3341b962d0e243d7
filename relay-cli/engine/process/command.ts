import type { EnginePorts } from "../ports.ts";
import { spawnGroup } from "./group.ts";
import type { Guard } from "./guard.ts";

/** A command that ran to its end, or was stopped. */
export interface CommandResult {
  code: number | null;
  signal: NodeJS.Signals | null;
  stdout: string;
  stderr: string;
  /** More was written than was kept. */
  truncated: boolean;
  timedOut: boolean;
  /** It never began: no such program, no right to run it. */
  error?: Error;
}

/** A command to run in a process group of its own, which is gone when it has ended. */
export interface Command {
  command: string;
  args: readonly string[];
  cwd: string;
  env: Readonly<Record<string, string | undefined>>;
  /** Written to standard input; without it there is none. */
  input?: string;
  timeoutMilliseconds: number;
  /** What is kept of each output, in bytes. The command may write on; the rest is thrown away. */
  maxBytes: number;
}

/** Runs a command. Never rejects: how it went is in the result. `signal` stops it, SIGTERM first. */
export async function runCommand(
  ports: Pick<EnginePorts, "processes" | "clock">,
  guard: Guard,
  wanted: Command,
  signal: AbortSignal,
): Promise<CommandResult> {
  const { command, args, cwd, env, input, timeoutMilliseconds, maxBytes } = wanted;
  const group = spawnGroup(ports, guard, command, args, {
    cwd,
    env: env as NodeJS.ProcessEnv,
    stdio: [input === undefined ? "ignore" : "pipe", "pipe", "pipe"],
  });
  const { stdin, stdout, stderr } = group.child;
  const outputs = [stdout, stderr].map((stream) => keep(stream, maxBytes));
  stdin?.on("error", () => {}); // it may end without having read everything
  stdin?.end(input);
  let timedOut = false;
  const cancelTimeout = ports.clock.after(timeoutMilliseconds, () => {
    timedOut = true;
    group.stop();
  });
  const onStop = (): void => group.stop();
  if (signal.aborted) onStop();
  else signal.addEventListener("abort", onStop, { once: true });

  const end = await group.ended;
  cancelTimeout();
  signal.removeEventListener("abort", onStop);
  await group.destroy();
  await Promise.all(outputs.map((o) => o.ended(ports)));
  const [out, err] = outputs.map((o) => o.text());
  return {
    code: end.code,
    signal: end.signal,
    stdout: out ?? "",
    stderr: err ?? "",
    truncated: outputs.some((o) => o.truncated()),
    timedOut,
    ...(end.error ? { error: end.error } : {}),
  };
}

function keep(stream: NodeJS.ReadableStream | null, maxBytes: number) {
  const chunks: Buffer[] = [];
  let size = 0;
  let truncated = false;
  let isOpen = stream !== null;
  stream?.on("data", (chunk: Buffer) => {
    const room = maxBytes - size;
    if (chunk.length > room) truncated = true;
    if (room <= 0) return;
    chunks.push(chunk.subarray(0, room));
    size += Math.min(chunk.length, room);
  });
  stream?.on("error", () => {});
  stream?.on("close", () => {
    isOpen = false;
  });
  return {
    text: () => Buffer.concat(chunks).toString("utf8"),
    truncated: () => truncated,
    /** A process that left the group may hold the pipe; nobody waits for it longer than a second. */
    ended: async ({ clock }: Pick<EnginePorts, "clock">): Promise<void> => {
      if (!isOpen || stream === null) return;
      await new Promise<void>((resolve) => {
        const cancel = clock.after(1_000, resolve);
        stream.once("close", () => {
          cancel();
          resolve();
        });
      });
      (stream as { destroy?(): void }).destroy?.();
    },
  };
}
