import { createInterface } from "node:readline/promises";

/** Where a command writes: data on stdout, everything else on stderr. */
export interface Terminal {
  /** One line of data. */
  data(line: string): void;
  /** A value as JSON, for programs. */
  json(value: unknown): void;
  /** A line for the person. */
  say(line: string): void;
  /** Whether somebody can be asked. */
  readonly interactive: boolean;
  /** Asks the person for one line. Only where `interactive`. */
  ask(question: string): Promise<string>;
  /** All of standard input, where it is not a terminal. */
  readAll(): Promise<string>;
}

export function systemTerminal(): Terminal {
  const { stdin, stdout, stderr } = process;
  return {
    data: (line) => void stdout.write(`${line}\n`),
    json: (value) => void stdout.write(`${JSON.stringify(value, null, 2)}\n`),
    say: (line) => void stderr.write(`${line}\n`),
    interactive: stdin.isTTY === true && stderr.isTTY === true,
    async ask(question) {
      const lines = createInterface({ input: stdin, output: stderr });
      try {
        return await lines.question(question);
      } finally {
        lines.close();
      }
    },
    async readAll() {
      const chunks: Buffer[] = [];
      for await (const chunk of stdin) chunks.push(chunk as Buffer);
      return Buffer.concat(chunks).toString("utf8");
    },
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
