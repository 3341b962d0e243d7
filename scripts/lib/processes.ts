import { type ChildProcess, type SpawnOptions, spawn } from "node:child_process";

/** A command that ended badly, with what it said. */
export class CommandFailed extends Error {
  readonly command: string;
  readonly code: number | null;
  readonly output: string;

  constructor(command: string, code: number | null, output: string) {
    super(`${command} ended with ${code === null ? "a signal" : `exit code ${code}`}:\n${output.trim()}`);
    this.command = command;
    this.code = code;
    this.output = output;
  }
}

/** Runs a command to its end and returns its stdout. `input` goes to its stdin, where secrets belong. */
export function run(
  command: string,
  args: readonly string[],
  options: SpawnOptions & { input?: string; onStderr?: (text: string) => void } = {},
): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { ...options, stdio: ["pipe", "pipe", "pipe"] });
    let stdout = "";
    let stderr = "";
    child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      stdout += text;
    });
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      stderr += text;
      options.onStderr?.(text);
    });
    // A child that ends without reading its input is judged by its exit code.
    child.stdin?.on("error", () => {}).end(options.input ?? "");
    child.on("error", reject);
    child.on("close", (code) => {
      if (code === 0) resolve(stdout);
      else reject(new CommandFailed(`${command} ${args[0] ?? ""}`, code, stderr || stdout));
    });
  });
}

/** Resolves when the child has ended. */
export const ended = (child: ChildProcess): Promise<void> =>
  child.exitCode !== null || child.signalCode !== null
    ? Promise.resolve()
    : new Promise((resolve) => child.once("close", () => resolve()));

/** Asks a child to end, and kills it if it has not within `graceMs`. */
export async function endChild(child: ChildProcess, signal: NodeJS.Signals, graceMs: number): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill(signal);
  const timer = setTimeout(() => child.kill("SIGKILL"), graceMs);
  await ended(child);
  clearTimeout(timer);
}
