import { Command, CommanderError } from "commander";
import { CommandError, EXIT_CODES, type ExitName } from "../exit-codes.ts";
import { StateError, StoreConflict } from "../store/errors.ts";
import { VERSION } from "../version.ts";
import { addApprovals } from "./approvals.ts";
import { addCall } from "./call.ts";
import { type Context, createContext } from "./context.ts";
import { addGraph } from "./graph.ts";
import { addHistory } from "./history.ts";
import { addLogin } from "./login.ts";
import { useEnvironment } from "./network.ts";
import { addProjects } from "./projects.ts";
import { addRun } from "./run.ts";
import { addShare } from "./share.ts";
import { addStart } from "./start.ts";
import { addStatus } from "./status.ts";

/** Carries out a command's body: opens what it needs, says what went wrong, sets the exit code. */
export type RunCommand = (body: (context: Context) => Promise<ExitName>) => Promise<void>;

/** The whole command line. Never throws; the exit code is in `process.exitCode`. */
export async function main(argv: readonly string[]): Promise<void> {
  const program = new Command("graph-relay")
    .description("Runs the Graphs you share, when a connected AI agent asks for them. Opens no port.")
    .version(VERSION)
    .option("--state <folder>", "where graph-relay keeps its state (also GRAPH_RELAY_STATE)")
    .option("--ca-file <file>", "certificates of your network's own authority, in PEM")
    .addHelpText("after", () => `\nExit codes:\n${exitCodeLines().join("\n")}`)
    .exitOverride();

  const run: RunCommand = async (body) => {
    const options = program.opts<{ state?: string; caFile?: string }>();
    const context = createContext(options.state);
    try {
      useEnvironment(context.terminal, options.caFile);
      process.exitCode = EXIT_CODES[await body(context)][0];
    } catch (error) {
      process.exitCode = EXIT_CODES[report(context, error)][0];
    } finally {
      context.close();
    }
  };
  for (const add of [
    addLogin,
    addProjects,
    addGraph,
    addShare,
    addStart,
    addStatus,
    addRun,
    addHistory,
    addApprovals,
    addCall,
  ])
    add(program, run);
  for (const command of program.commands) command.exitOverride();

  try {
    await program.parseAsync(argv);
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    // Commander has said what is wrong; it ends with 0 only for help and version.
    process.exitCode = error.exitCode === 0 ? 0 : EXIT_CODES.usage[0];
  }
}

/** Says what went wrong, in one paragraph on stderr, and which exit code that is. */
function report(context: Context, error: unknown): ExitName {
  if (error instanceof CommandError) {
    context.terminal.say(error.message);
    return error.exit;
  }
  if (error instanceof StateError) {
    context.terminal.say(error.message);
    return "state_unusable";
  }
  if (error instanceof StoreConflict) {
    context.terminal.say(error.message);
    return "usage";
  }
  context.terminal.say(
    `graph-relay failed: ${error instanceof Error ? (error.stack ?? error.message) : error}`,
  );
  return "failed";
}

function exitCodeLines(): string[] {
  return Object.values(EXIT_CODES).map(([code, meaning]) => `  ${String(code).padStart(3)}  ${meaning}`);
}
