#!/usr/bin/env node
// Node 22 warns that its SQLite is experimental each time it is loaded; the warning would end up in every
// command's stderr. It is dropped before anything loads SQLite.
const emitWarning = process.emitWarning.bind(process) as (...args: unknown[]) => void;
process.emitWarning = (warning: string | Error, ...rest: unknown[]) => {
  if (!String(warning).includes("SQLite is an experimental feature")) emitWarning(warning, ...rest);
};

// `graph-relay history list | head -1`: the reader has what it wanted, which is no failure.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code === "EPIPE") process.exit(process.exitCode ?? 0);
  throw error;
});
// A relay whose terminal is gone has runs to finish: nobody hears it, that is all.
process.stderr.on("error", () => {});

const { main } = await import("./commands/program.ts");
await main(process.argv);

export {};
