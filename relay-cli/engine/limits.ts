/** Fixed bounds of the engine. Characters are UTF-16 units; times are milliseconds unless named otherwise. */
export const ENGINE_LIMITS = {
  /** The JSON text of a Graph's result. A larger one fails the run with a clear error. */
  resultCharacters: 64_000_000,
  /** How deep a result, arguments or a tool's input may nest: past it JSON parsers differ in what they survive. */
  jsonDepth: 200,
  /** One message between a Graph's process and the engine, results apart: a prompt, a tool's input or answer. */
  messageCharacters: 8_000_000,
  /** One piece of a message on the wire. */
  chunkCharacters: 262_144,
  /** What a run's log keeps: lines, their length, and all of them together. The rest is counted, not kept. */
  logLines: 10_000,
  logLineCharacters: 4_000,
  logCharacters: 2_000_000,
  /** A progress message. */
  progressCharacters: 500,
  /** An error's text in an outcome; the first lines of the stack included. */
  errorCharacters: 8_000,
  /** Bytes the engine reads from one Graph's process in a second; past it the Graph waits, not the caller. */
  bytesPerSecond: 64_000_000,
  /** Calls (agents, tools, sub-Graphs) a Graph may have under way at once. */
  pendingCalls: 256,
  /** Between SIGTERM and SIGKILL, for the whole process group (design section 9). */
  stopGraceMilliseconds: 10_000,
  /** Between a Graph's result and the end of its process, before it is killed. */
  exitGraceMilliseconds: 2_000,
  /** From the start of a Graph's process to its first word. */
  startMilliseconds: 30_000,
  /** Reading a Graph's `meta`, its process's start included. */
  describeMilliseconds: 15_000,
  /** How many sub-Graphs may stand in each other, the first Graph not counted. */
  graphDepth: 5,
  /** Sub-Graphs under way at once in one run. */
  subGraphs: 8,
} as const;

/** What an owner may set for a Graph, with its range: [least, default, most]. */
export const SETTING_RANGES = {
  memory_megabytes: [64, 512, 16_384],
  max_run_seconds: [1, 14_400, 604_800],
  token_ceiling: [1, 200_000, 1_000_000_000],
  approval_timeout_seconds: [5, 600, 86_400],
} as const;
