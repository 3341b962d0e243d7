import type { Dirent } from "node:fs";
import { join, relative, sep } from "node:path";
import * as z from "zod";
import type { EngineFs } from "../ports.ts";
import { notThere, resolveGranted } from "./folders.ts";
import type { Tool } from "./tool.ts";

const MAX_ENTRIES = 50_000;
const STATS_AT_ONCE = 64;

const input = z.strictObject({
  path: z
    .string()
    .min(1)
    .max(4096)
    .default(".")
    .describe("Absolute, or relative to the first granted folder."),
  recursive: z.boolean().default(false),
  ignore: z
    .array(z.string().max(255))
    .max(100)
    .default([])
    .describe("Names of files and folders to leave out, wherever they are."),
  max_entries: z.number().int().min(1).max(MAX_ENTRIES).default(5_000),
});

type Entry = { path: string; type: "file" | "folder" | "link" | "other"; size: number; modified: string };

/** Lists a folder, with sizes and times. Links are named, never followed. */
export const listFolderTool: Tool<z.infer<typeof input>> = {
  name: "list_folder",
  description: "Lists a granted folder: paths relative to it, types, sizes in bytes, times of change.",
  input,
  defaultApproval: "allow",
  async prepare(asked, { ports, settings, signal }) {
    const { path } = await resolveGranted(ports, settings.folders, asked.path);
    return {
      request: `list ${path}${asked.recursive ? " and all below" : ""}`,
      run: () => list(ports.fs, path, asked, signal),
    };
  },
};

async function list(
  fs: EngineFs,
  top: string,
  { recursive, ignore, max_entries }: z.infer<typeof input>,
  signal: AbortSignal,
): Promise<{ path: string; entries: Entry[]; truncated: boolean }> {
  const ignored = new Set(ignore);
  const entries: Entry[] = [];
  const folders = [top];
  for (let folder = folders.shift(); folder !== undefined; folder = folders.shift()) {
    signal.throwIfAborted();
    const room = max_entries - entries.length;
    const found = await namesIn(fs, folder, ignored, room + 1, folder === top);
    const shown = found.slice(0, room);
    entries.push(...(await withStats(fs, top, folder, shown)));
    if (found.length > room) return { path: top, entries, truncated: true };
    if (recursive) folders.push(...shown.filter((d) => d.isDirectory()).map((d) => join(folder, d.name)));
  }
  return { path: top, entries, truncated: false };
}

/** A folder below that cannot be read is an empty one; the one that was asked for is an error. */
async function namesIn(
  fs: EngineFs,
  folder: string,
  ignored: ReadonlySet<string>,
  most: number,
  isTop: boolean,
): Promise<Dirent[]> {
  const found: Dirent[] = [];
  try {
    // It may have become a link since it was looked up.
    if ((await fs.realpath(folder)) !== folder) throw Object.assign(new Error(), { code: "ELOOP" });
    for await (const entry of await fs.opendir(folder)) {
      if (ignored.has(entry.name)) continue;
      found.push(entry);
      if (found.length >= most) break;
    }
  } catch (error) {
    if (isTop) throw notThere(folder, error);
  }
  return found.sort((a, b) => (a.name < b.name ? -1 : 1));
}

async function withStats(fs: EngineFs, top: string, folder: string, found: Dirent[]): Promise<Entry[]> {
  const entries: Entry[] = [];
  for (let i = 0; i < found.length; i += STATS_AT_ONCE) {
    const some = found.slice(i, i + STATS_AT_ONCE).map(async (entry): Promise<Entry[]> => {
      const path = join(folder, entry.name);
      try {
        const stats = await fs.lstat(path);
        return [
          {
            path: relative(top, path).split(sep).join("/"),
            type: typeOf(stats),
            size: stats.size,
            modified: stats.mtime.toISOString(),
          },
        ];
      } catch {
        return []; // gone since it was listed
      }
    });
    entries.push(...(await Promise.all(some)).flat());
  }
  return entries;
}

const typeOf = (of: {
  isFile(): boolean;
  isDirectory(): boolean;
  isSymbolicLink(): boolean;
}): Entry["type"] =>
  of.isFile() ? "file" : of.isDirectory() ? "folder" : of.isSymbolicLink() ? "link" : "other";
