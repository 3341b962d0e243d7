import { spawn } from "@lydell/node-pty";
import { MAIN } from "../../relay/support/cli.ts";

/** The program on a pseudo-terminal, as a person has it. */
export interface PseudoTerminal {
  /** All it has shown so far, escape sequences included. */
  shown(): string;
  /** Resolves once what was shown after the last `type` holds this. */
  shows(text: string): Promise<void>;
  type(text: string): void;
  readonly ended: Promise<number>;
  kill(): void;
}

export function openTerminal(
  state: string,
  words: readonly string[],
  { columns = 100, env = {} }: { columns?: number; env?: Record<string, string> } = {},
): PseudoTerminal {
  const pty = spawn(process.execPath, [MAIN, "--state", state, ...words], {
    cols: columns,
    rows: 30,
    env: { ...process.env, TERM: "xterm", ...env },
  });
  let all = "";
  let since = 0;
  const waiters: (() => void)[] = [];
  pty.onData((text) => {
    all += text;
    for (const wake of waiters) wake();
  });
  const ended = new Promise<number>((resolve) => pty.onExit(({ exitCode }) => resolve(exitCode)));
  return {
    shown: () => all,
    shows: (text) =>
      new Promise((resolve) => {
        const look = (): void => {
          if (all.slice(since).includes(text)) resolve();
        };
        waiters.push(look);
        look();
      }),
    type(text) {
      since = all.length;
      pty.write(text);
    },
    ended,
    kill: () => pty.kill("SIGKILL"),
  };
}
