/** One frame of a stack: what ran, and in which source. */
export interface Frame {
  name: string;
  /** Path or address of the source; empty for what is built in. */
  source: string;
}

/** A profile as V8's inspector makes it. */
export interface CpuProfile {
  nodes: {
    id: number;
    callFrame: { functionName: string; url: string; lineNumber: number; columnNumber: number };
    children?: number[] | undefined;
  }[];
  samples?: number[] | undefined;
  timeDeltas?: number[] | undefined;
}

/** Milliseconds by area, largest first. */
export type Spent = [area: string, ms: number][];

/** Finds a frame's source where the profile's own is a bundle. */
export type SourceOf = (url: string, line: number, column: number) => string;

/** Sums a profile's samples by the area of the stack each was taken in, innermost frame first. */
export function spent(profile: CpuProfile, areaOf: (stack: Frame[]) => string, sourceOf?: SourceOf): Spent {
  const byId = new Map(profile.nodes.map((node) => [node.id, node]));
  const parent = new Map(
    profile.nodes.flatMap((node) => (node.children ?? []).map((child) => [child, node.id] as const)),
  );
  const areas = new Map<number, string>();
  const areaOfNode = (id: number): string => {
    const known = areas.get(id);
    if (known !== undefined) return known;
    const stack: Frame[] = [];
    for (let at: number | undefined = id; at !== undefined; at = parent.get(at)) {
      const call = byId.get(at)?.callFrame;
      if (!call) break;
      const source = sourceOf?.(call.url, call.lineNumber, call.columnNumber) ?? call.url;
      stack.push({ name: call.functionName, source });
    }
    const area = areaOf(stack);
    areas.set(id, area);
    return area;
  };
  const sums = new Map<string, number>();
  profile.samples?.forEach((id, i) => {
    const area = areaOfNode(id);
    sums.set(area, (sums.get(area) ?? 0) + (profile.timeDeltas?.[i] ?? 0) / 1000);
  });
  return [...sums].sort((a, b) => b[1] - a[1]);
}

/** Names of samples that are no work of ours: waiting, and time V8 cannot tell. */
const IDLE = new Set(["(idle)", "(root)"]);

/**
 * What a stack is counted as: the innermost frame that has a source decides, by its package or by its folder
 * in this repository; SQLite's calls count apart, since they are the work itself.
 */
export function areaOf(stack: Frame[]): string {
  const [innermost] = stack;
  if (!innermost || IDLE.has(innermost.name)) return "idle";
  if (innermost.name === "(garbage collector)") return "garbage collection";
  if (innermost.name === "(program)") return "native code: HTTP, sockets, the journal";
  const sqlite = sqliteArea(stack);
  if (sqlite) return sqlite;
  if (stack[1]?.source.endsWith("src/worker/queues.ts")) return "calling the object (RPC)";
  for (const { source } of stack) {
    const area = areaOfSource(source);
    if (area) return area;
  }
  return "other";
}

const STATEMENT = /^(exec|all|get|run|prepare|columns|raw|next|one|toArray|setReturnArrays)$/;

/** What is built in and called from the queue, its storage or drizzle's driver: the database's own work. */
function sqliteArea([innermost, caller]: Frame[]): string | undefined {
  if (innermost?.source !== "" || !caller) return undefined;
  if (!/queue-storage|drizzle-orm|src\/durable/.test(caller.source) && caller.source !== "") return undefined;
  if (innermost.name === "transactionSync" || caller.name === "transactionSync")
    return "SQLite: commit and sync";
  return STATEMENT.test(innermost.name) ? "SQLite: statements" : undefined;
}

function areaOfSource(source: string): string | undefined {
  const inPackage = /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(source)?.[1];
  if (inPackage) return inPackage;
  const inRepository = /(src\/worker\/[^/]+|src\/durable|src\/protocol|test\/support|bench\/race)/.exec(
    source,
  )?.[1];
  if (inRepository) return inRepository.replace(/\/[^/]+\.ts$/, "");
  if (source.startsWith("cloudflare-internal:"))
    return `workerd's ${source.slice("cloudflare-internal:".length)}`;
  if (source.startsWith("node:")) return "Node";
  return undefined;
}
