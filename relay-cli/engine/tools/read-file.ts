import * as z from "zod";
import { EngineError } from "../errors.ts";
import { openGranted, resolveGranted } from "./folders.ts";
import type { Tool } from "./tool.ts";

const MAX_BYTES = 2_000_000;

const input = z.strictObject({
  path: z.string().min(1).max(4096).describe("Absolute, or relative to the first granted folder."),
  offset: z.number().int().min(0).default(0).describe("Where to begin, in bytes."),
  max_bytes: z.number().int().min(1).max(MAX_BYTES).default(500_000),
  encoding: z.enum(["utf8", "base64"]).default("utf8"),
});

/** Reads a file, or a part of it. */
export const readFileTool: Tool<z.infer<typeof input>> = {
  name: "read_file",
  description:
    "Reads a text file in a granted folder. Long files come in parts: see `truncated` and `offset`.",
  input,
  defaultApproval: "allow",
  async prepare({ path, offset, max_bytes, encoding }, { ports, settings }) {
    const granted = await resolveGranted(ports, settings.folders, path);
    return {
      request: `read ${granted.path}`,
      async run() {
        const handle = await openGranted(ports.fs, granted);
        try {
          const { size } = await handle.stat();
          const buffer = Buffer.alloc(Math.max(0, Math.min(max_bytes, size - offset)));
          const { bytesRead } = await handle.read(buffer, 0, buffer.length, offset);
          const bytes = buffer.subarray(0, bytesRead);
          if (encoding === "utf8" && bytes.subarray(0, 8192).includes(0))
            throw new EngineError("invalid_input", `${JSON.stringify(path)} is no text; read it as base64.`);
          return {
            path: granted.path,
            size,
            text: bytes.toString(encoding),
            truncated: offset + bytesRead < size,
          };
        } finally {
          await handle.close();
        }
      },
    };
  },
};
