import { constants } from "node:fs";
import { basename, dirname, join } from "node:path";
import * as z from "zod";
import { EngineError } from "../errors.ts";
import type { EnginePorts } from "../ports.ts";
import { type GrantedPath, notThere, resolveForWriting } from "./folders.ts";
import type { Tool } from "./tool.ts";

const MAX_CHARACTERS = 2_000_000;

const input = z.strictObject({
  path: z
    .string()
    .min(1)
    .max(4096)
    .describe("Absolute, or relative to the first folder granted for writing."),
  text: z.string().max(MAX_CHARACTERS).describe("The whole new content."),
  append: z.boolean().default(false).describe("Put it at the end of what is there."),
});

/** Writes a text file, in a folder that exists and is granted for writing. */
export const writeFileTool: Tool<z.infer<typeof input>> = {
  name: "write_file",
  description:
    "Writes a text file in a folder that is granted for writing; replaces what is there, or appends to it.",
  input,
  defaultApproval: "ask",
  async prepare({ path, text, append }, { ports, settings }) {
    const target = await resolveForWriting(ports, settings.folders, path);
    const before = await existing(ports, target);
    const verb = append ? "append to" : before === undefined ? "create" : `replace (now ${before} bytes)`;
    return {
      request: `${verb} ${target.path}, ${Buffer.byteLength(text)} bytes:\n${text}`,
      async run() {
        // The folder may have been moved away while the owner thought.
        const again = await resolveForWriting(ports, settings.folders, path);
        if (again.path !== target.path)
          throw new EngineError(
            "path_not_granted",
            `${JSON.stringify(path)} is elsewhere than when it was approved.`,
          );
        await existing(ports, target);
        await (append ? appendTo(ports, target.path, text) : replace(ports, target.path, text));
        return { path: target.path, bytes: Buffer.byteLength(text) };
      },
    };
  },
};

/** The size of the file there, or undefined. A link or anything else that is no file is refused. */
async function existing({ fs }: EnginePorts, { path }: GrantedPath): Promise<number | undefined> {
  try {
    const stats = await fs.lstat(path);
    if (!stats.isFile())
      throw new EngineError(
        "path_not_granted",
        `${JSON.stringify(path)} is a link, a folder or a device; only files are written.`,
      );
    return stats.size;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error instanceof EngineError ? error : notThere(path, error);
  }
}

/** Whole or not at all: a temporary file beside it, on disk, then renamed over it with the old one's rights. */
async function replace({ fs, random }: EnginePorts, path: string, text: string): Promise<void> {
  const suffix = Buffer.from(random.bytes(6)).toString("hex");
  const temporary = join(dirname(path), `.${basename(path).slice(0, 100)}.${suffix}.tmp`);
  const mode = await fs.stat(path).then(
    (s) => s.mode & 0o777,
    () => 0o644,
  );
  const handle = await fs.open(temporary, "wx", mode);
  try {
    await handle.writeFile(text, "utf8");
    await handle.sync();
    await handle.close();
    await fs.rename(temporary, path);
  } catch (error) {
    await handle.close().catch(() => {});
    await fs.unlink(temporary).catch(() => {});
    throw failed(path, error);
  }
}

async function appendTo({ fs }: EnginePorts, path: string, text: string): Promise<void> {
  const { O_WRONLY, O_APPEND, O_CREAT, O_NOFOLLOW = 0 } = constants;
  try {
    const handle = await fs.open(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW, 0o644);
    try {
      await handle.writeFile(text, "utf8");
    } finally {
      await handle.close();
    }
  } catch (error) {
    throw failed(path, error);
  }
}

const failed = (path: string, error: unknown): EngineError =>
  new EngineError(
    "failed",
    `${JSON.stringify(path)} could not be written (${(error as NodeJS.ErrnoException).code ?? String(error)}).`,
  );
