import { createInterface } from "node:readline/promises";
import { visible } from "./safe-text.ts";

/**
 * Where a command writes: data on stdout, everything else on stderr. Whoever a text is of, it steers no terminal:
 * lines are shown by `visible`.
 */
export interface Terminal {
  /** One line of data. */
  data(line: string): void;
  /** A value as JSON, for programs. */
  json(value: unknown): void;
  /** A line for the person. */
  say(line: string): void;
  /** Whether somebody can be asked. */
  readonly interactive: boolean;
  /**
   * Asks the person for one line. Only where `interactive`. Rejects when `signal` is given, or the terminal is
   * closed. What is said meanwhile stands above the question; the foot is away.
   */
  ask(question: string, signal?: AbortSignal): Promise<string>;
  /** All of standard input, where it is not a terminal. */
  readAll(): Promise<string>;
  /** Whether stderr is a terminal on which lines can be painted over. */
  readonly paints: boolean;
  /** How wide it is. */
  columns(): number;
  /** Shows lines at the foot, in place of those shown before. Each must fit. Only where `paints`. */
  footer(lines: readonly string[]): void;
}

export function systemTerminal(): Terminal {
  const { stdin, stdout, stderr } = process;
  const paints = stderr.isTTY === true && process.env.TERM !== "dumb";
  let foot: readonly string[] = [];
  const eraseFoot = (): string => (foot.length === 0 ? "" : `\x1b[${foot.length}A\r\x1b[J`);
  const footText = (): string => foot.map((line) => `${line}\n`).join("");
  let question: string | undefined;
  let footAfterwards: readonly string[] = [];
  const footer = (lines: readonly string[]): void => {
    if (question !== undefined) {
      footAfterwards = lines;
      return;
    }
    if (lines.length === foot.length && lines.every((line, i) => line === foot[i])) return;
    const erase = eraseFoot();
    foot = [...lines];
    stderr.write(`${erase}${footText()}`);
  };

  return {
    data: (line) => void stdout.write(`${visible(line)}\n`),
    json: (value) => void stdout.write(`${JSON.stringify(value, null, 2)}\n`),
    say(text) {
      const line = visible(text);
      stderr.write(
        question === undefined ? `${eraseFoot()}${line}\n${footText()}` : `\n${line}\n${question}`,
      );
    },
    interactive: stdin.isTTY === true && stderr.isTTY === true,
    async ask(text, signal) {
      const before = foot;
      footer([]);
      question = text;
      footAfterwards = before;
      // Not a terminal of readline's own: the line discipline edits the line, and Ctrl-C stays a signal.
      const lines = createInterface({ input: stdin, output: stderr, terminal: false });
      const { promise: closed, reject } = Promise.withResolvers<never>();
      lines.once("close", () => reject(new Error("The terminal was closed.")));
      try {
        return await Promise.race([lines.question(text, signal ? { signal } : {}), closed]);
      } finally {
        closed.catch(() => {});
        lines.close();
        question = undefined;
        footer(footAfterwards);
      }
    },
    async readAll() {
      const chunks: Buffer[] = [];
      for await (const chunk of stdin) chunks.push(chunk as Buffer);
      return Buffer.concat(chunks).toString("utf8");
    },
    paints,
    columns: () => stderr.columns || 80,
    footer,
  };
}

/** Rows as aligned columns, the first row being the heading. Nothing is cut: width is the terminal's affair. */
export function columns(rows: readonly (readonly string[])[]): string[] {
  const widths = (rows[0] ?? []).map((_, i) => Math.max(...rows.map((row) => (row[i] ?? "").length)));
  return rows.map((row) =>
    row
      .map((cell, i) => (i === row.length - 1 ? cell : cell.padEnd(widths[i] ?? 0)))
      .join("  ")
      .trimEnd(),
  );
}
