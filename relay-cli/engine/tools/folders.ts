import { constants } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import { dirname, isAbsolute, join, relative, resolve, sep } from "node:path";
import { EngineError } from "../errors.ts";
import type { EngineFs, EnginePorts } from "../ports.ts";
import type { FolderGrant } from "../settings.ts";

/** What looking up paths needs. */
export type FolderPorts = Pick<EnginePorts, "fs" | "offLimits">;

/** A place inside of a granted folder. Both paths are real: no symlink and no `..` is left in them. */
export interface GrantedPath {
  path: string;
  folder: string;
}

const inside = (folder: string, path: string): boolean =>
  path === folder || path.startsWith(folder.endsWith(sep) ? folder : folder + sep);

/**
 * Where `wanted` really is, if that is inside of a granted folder; otherwise an EngineError. A relative path is looked
 * up in the first granted folder. Every refusal reads the same whether or not something is there.
 */
export async function resolveGranted(
  { fs, offLimits }: FolderPorts,
  folders: readonly FolderGrant[],
  wanted: string,
): Promise<GrantedPath> {
  const first = folders[0];
  if (first === undefined)
    throw new EngineError(
      "path_not_granted",
      `No folder is granted to this Graph, so ${show(wanted)} cannot be reached.`,
    );
  if (wanted.includes("\0")) throw new EngineError("invalid_input", "A path cannot hold a NUL character.");
  const asked = isAbsolute(wanted) ? resolve(wanted) : resolve(first.path, wanted);
  const roots = await realRoots(fs, folders);
  const refused = new EngineError(
    "path_not_granted",
    `${show(wanted)} is not in a folder granted to this Graph.`,
  );
  try {
    const real = await fs.realpath(asked);
    const root = roots.find((r) => inside(r, real));
    if (root === undefined || (await isOffLimits({ fs, offLimits }, real))) throw refused;
    return { path: real, folder: root };
  } catch (error) {
    if (error === refused) throw error;
    // Not there: said only of a place that is inside, so that nobody learns what is outside.
    const above = await realAncestor(fs, asked);
    throw roots.some((r) => inside(r, above)) ? notThere(wanted, error) : refused;
  }
}

/** Whether a real path is, or is inside of, what no Graph may reach. */
async function isOffLimits({ fs, offLimits }: FolderPorts, path: string): Promise<boolean> {
  const closed = await Promise.all(offLimits.map((p) => fs.realpath(p).catch(() => p)));
  return closed.some((p) => inside(p, path));
}

/** The real path of the nearest folder above `path` that is there. */
async function realAncestor(fs: EngineFs, path: string): Promise<string> {
  const above = dirname(path);
  if (above === path) return path;
  try {
    return await fs.realpath(above);
  } catch {
    return realAncestor(fs, above);
  }
}

/** As `resolveGranted`, for a file that need not exist yet, in a folder that does, granted for writing. */
export async function resolveForWriting(
  ports: FolderPorts,
  folders: readonly FolderGrant[],
  wanted: string,
): Promise<GrantedPath> {
  const writable = folders.filter((f) => f.write);
  if (writable.length === 0)
    throw new EngineError("path_not_granted", `No folder is granted to this Graph for writing.`);
  const parent = await resolveGranted(ports, writable, join(wanted, ".."));
  const name = relative(join(wanted, ".."), wanted);
  if (name === "" || name === ".." || name.includes(sep))
    throw new EngineError("invalid_input", `${show(wanted)} names no file.`);
  const path = join(parent.path, name);
  if (await isOffLimits(ports, path))
    throw new EngineError("path_not_granted", `${show(wanted)} is not in a folder granted to this Graph.`);
  return { path, folder: parent.folder };
}

async function realRoots(fs: EngineFs, folders: readonly FolderGrant[]): Promise<string[]> {
  // A granted folder that is gone grants nothing.
  const roots = await Promise.all(folders.map(({ path }) => fs.realpath(path).catch(() => undefined)));
  return roots.filter((root) => root !== undefined);
}

/**
 * Opens a real path for reading without following a link that was put there meanwhile, and makes sure that what
 * was opened is still what that path names, inside of the folder.
 */
export async function openGranted(fs: EngineFs, granted: GrantedPath): Promise<FileHandle> {
  const { O_RDONLY, O_NOFOLLOW = 0, O_NONBLOCK = 0 } = constants;
  let handle: FileHandle;
  try {
    handle = await fs.open(granted.path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  } catch (error) {
    throw notThere(granted.path, error);
  }
  try {
    const [opened, now, real] = await Promise.all([
      handle.stat(),
      fs.lstat(granted.path),
      fs.realpath(granted.path),
    ]);
    if (opened.ino !== now.ino || opened.dev !== now.dev || !inside(granted.folder, real))
      throw new EngineError("path_not_granted", `${show(granted.path)} changed while it was opened.`);
    if (!opened.isFile()) throw new EngineError("invalid_input", `${show(granted.path)} is no file.`);
    return handle;
  } catch (error) {
    await handle.close();
    throw error;
  }
}

export function notThere(path: string, error: unknown): EngineError {
  const code = (error as { code?: string }).code ?? "unknown error";
  const words: Record<string, string> = {
    ENOENT: "is not there",
    EACCES: "may not be opened by this user",
    ENOTDIR: "is not there",
    ELOOP: "is a link",
  };
  return new EngineError("not_found", `${show(path)} ${words[code] ?? `cannot be opened (${code})`}.`);
}

const show = (path: string): string => JSON.stringify(path);
