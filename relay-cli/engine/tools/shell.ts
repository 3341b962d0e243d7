import * as z from "zod";
import { EngineError } from "../errors.ts";
import { runCommand } from "../process/command.ts";
import { plainEnvironment } from "./environment.ts";
import { resolveGranted } from "./folders.ts";
import type { Tool } from "./tool.ts";

const MAX_BYTES = 500_000;

const input = z.strictObject({
  command: z.string().min(1).max(100_000).describe("A command line for the shell."),
  folder: z
    .string()
    .min(1)
    .max(4096)
    .default(".")
    .describe("Where it runs: a granted folder or one inside of it."),
  timeout_seconds: z.number().int().min(1).max(3_600).default(120),
});

/** Runs a command line. Once approved it may do what the owner may; the granted folders only say where it begins. */
export const shellTool: Tool<z.infer<typeof input>> = {
  name: "shell",
  description: "Runs a shell command in a granted folder and gives its exit code and output.",
  input,
  defaultApproval: "ask",
  async prepare({ command, folder, timeout_seconds }, { ports, guard, settings, signal }) {
    if (command.includes("\0"))
      throw new EngineError("invalid_input", "A command cannot hold a NUL character.");
    const { path: cwd } = await resolveGranted(ports, settings.folders, folder);
    const [shell, flag] = process.platform === "win32" ? ["cmd.exe", "/c"] : ["/bin/sh", "-c"];
    return {
      request: `in ${cwd}: ${command}`,
      async run() {
        const result = await runCommand(
          ports,
          guard,
          {
            command: shell,
            args: [flag, command],
            cwd,
            env: plainEnvironment(ports.env),
            timeoutMilliseconds: timeout_seconds * 1000,
            maxBytes: MAX_BYTES,
          },
          signal,
        );
        signal.throwIfAborted();
        if (result.error) throw new EngineError("failed", `The shell cannot be run: ${result.error.message}`);
        return {
          exit_code: result.code,
          stdout: result.stdout,
          stderr: result.stderr,
          truncated: result.truncated,
          timed_out: result.timedOut,
        };
      },
    };
  },
};
