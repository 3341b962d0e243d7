import {
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, sep } from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import type { Json } from "../../relay-cli/engine/contract.ts";
import { EngineError, systemPorts } from "../../relay-cli/engine/index.ts";
import { createGuard } from "../../relay-cli/engine/process/guard.ts";
import { DEFAULT_GRAPH_SETTINGS } from "../../relay-cli/engine/settings.ts";
import { BUILT_IN_TOOLS } from "../../relay-cli/engine/tools/tool-box.ts";

const SECRET = "the secret";
const root = realpathSync(mkdtempSync(join(tmpdir(), "graph-relay-paths-")));
const granted = join(root, "granted");
const outside = join(root, "outside");
const neighbour = join(root, "granted-not"); // its name begins as the granted one's does
for (const folder of [granted, outside, neighbour, join(granted, "sub"), join(outside, "deep")])
  mkdirSync(folder);
writeFileSync(join(granted, "fine.txt"), "fine");
writeFileSync(join(granted, "sub", "fine.txt"), "fine");
for (const folder of [outside, join(outside, "deep"), neighbour, root])
  writeFileSync(join(folder, "secret.txt"), SECRET);
symlinkSync(outside, join(granted, "link-out"));
symlinkSync(join(outside, "secret.txt"), join(granted, "link-file"));
symlinkSync("..", join(granted, "link-up"));
symlinkSync("../../outside", join(granted, "sub", "link-relative"));
symlinkSync("link-out", join(granted, "link-to-link"));
symlinkSync("sub", join(granted, "link-in"));
symlinkSync("link-loop", join(granted, "link-loop"));
symlinkSync(join(outside, "not-there.txt"), join(granted, "link-dangling"));
symlinkSync(granted, join(root, "granted-by-link"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

writeFileSync(join(granted, "own.key"), SECRET);
symlinkSync("own.key", join(granted, "link-own"));
const context = (path: string, write: boolean) => ({
  ports: { ...systemPorts, offLimits: [join(granted, "own.key"), join(granted, "own-later")] },
  guard: createGuard(systemPorts),
  settings: { ...DEFAULT_GRAPH_SETTINGS, folders: [{ path, write }] },
  signal: new AbortController().signal,
});

/** What a tool gives for a path, or the code it is refused with. */
async function use(
  name: string,
  input: { [key: string]: Json },
  grant = granted,
  write = true,
): Promise<Json> {
  const tool = BUILT_IN_TOOLS.find((t) => t.name === name);
  if (tool === undefined) throw new Error(name);
  try {
    const prepared = await tool.prepare(tool.input.parse(input), context(grant, write));
    return await prepared.run();
  } catch (error) {
    if (error instanceof EngineError) return { refused: error.code };
    throw error;
  }
}

const segment = fc.constantFrom(
  "..",
  ".",
  "",
  "sub",
  "link-out",
  "link-up",
  "link-file",
  "link-relative",
  "link-to-link",
  "link-in",
  "link-loop",
  "link-dangling",
  "secret.txt",
  "fine.txt",
  "deep",
  "outside",
  "granted",
  "granted-not",
  "granted-by-link",
  "etc",
  "passwd",
  "new.txt",
  "own.key",
  "link-own",
  "\0",
  "~",
  "%2e%2e",
  "..\\",
);
const path = fc
  .tuple(
    fc.constantFrom(
      "",
      "./",
      "/",
      `${granted}/`,
      `${root}/`,
      `${granted}/../`,
      `${root}/granted-by-link/`,
      "//",
    ),
    fc.array(segment, { maxLength: 7 }),
  )
  .map(([start, rest]) => start + rest.join("/"));

describe("no path gets out of the granted folder", () => {
  test("read_file and list_folder show nothing of what is outside, whatever the path", async () => {
    await fc.assert(
      fc.asyncProperty(path, async (wanted) => {
        fc.pre(wanted !== "");
        for (const [name, input] of [
          ["read_file", { path: wanted }],
          ["list_folder", { path: wanted, recursive: true }],
        ] as const) {
          const got = JSON.stringify(await use(name, input));
          expect(got).not.toContain(SECRET);
          expect(got).not.toContain("secret.txt");
        }
      }),
      { numRuns: 400 },
    );
  });

  test("write_file changes nothing outside, whatever the path", async () => {
    const watched = [
      join(root, "secret.txt"),
      join(outside, "secret.txt"),
      join(outside, "deep", "secret.txt"),
      join(neighbour, "secret.txt"),
      join(granted, "own.key"),
    ];
    await fc.assert(
      fc.asyncProperty(path, fc.boolean(), async (wanted, append) => {
        fc.pre(wanted !== "");
        const got = (await use("write_file", { path: wanted, text: "overwritten", append })) as {
          path?: string;
        };
        if (got.path !== undefined) expect(realpathSync(got.path).startsWith(granted + sep)).toBe(true);
        for (const file of watched) expect(readFileSync(file, "utf8")).toBe(SECRET);
        expect(() => readFileSync(join(outside, "not-there.txt"))).toThrow();
        expect(() => readFileSync(join(root, "new.txt"))).toThrow();
        expect(() => readFileSync(join(outside, "new.txt"))).toThrow();
        for (const folder of [granted, join(granted, "sub")]) writeFileSync(join(folder, "fine.txt"), "fine");
      }),
      { numRuns: 400 },
    );
  });

  test("a shell begins in a granted folder or not at all", async () => {
    expect(await use("shell", { command: "pwd", folder: "sub" })).toMatchObject({
      stdout: `${join(granted, "sub")}\n`,
    });
    for (const folder of ["..", "link-out", "/", outside])
      expect(await use("shell", { command: "pwd", folder })).toEqual({ refused: "path_not_granted" });
  });

  test("a refusal does not tell whether there is something", async () => {
    for (const there of [
      "../secret.txt",
      "link-out/secret.txt",
      join(neighbour, "secret.txt"),
      "/etc/passwd",
    ]) {
      const gone = there.replace(/[^/]+$/, "no-such-thing");
      expect(await use("read_file", { path: there })).toEqual({ refused: "path_not_granted" });
      expect(await use("read_file", { path: gone })).toEqual({ refused: "path_not_granted" });
    }
  });
});

test("what is off limits is so in a granted folder too, by whatever path", async () => {
  for (const wanted of ["own.key", "link-own", "sub/../own.key", join(root, "granted-by-link", "own.key")]) {
    expect(await use("read_file", { path: wanted })).toEqual({ refused: "path_not_granted" });
    expect(await use("write_file", { path: wanted, text: "x" })).toEqual({ refused: "path_not_granted" });
    expect(await use("write_file", { path: wanted, text: "x", append: true })).toEqual({
      refused: "path_not_granted",
    });
  }
  expect(await use("write_file", { path: "own-later", text: "x" })).toEqual({ refused: "path_not_granted" });
  expect(readFileSync(join(granted, "own.key"), "utf8")).toBe(SECRET);
});

describe("inside, paths work as one would expect", () => {
  test.each([
    "fine.txt",
    "./sub/../fine.txt",
    "link-in/fine.txt",
    join(granted, "fine.txt"),
    join(root, "granted-by-link", "fine.txt"),
  ])("%s", async (wanted) => {
    expect(await use("read_file", { path: wanted })).toMatchObject({ text: "fine", truncated: false });
  });

  test("a grant that is itself a link holds for what it leads to", async () => {
    expect(await use("read_file", { path: "fine.txt" }, join(root, "granted-by-link"))).toMatchObject({
      text: "fine",
    });
    expect(await use("read_file", { path: "../secret.txt" }, join(root, "granted-by-link"))).toEqual({
      refused: "path_not_granted",
    });
  });

  test("without a grant, or where the granted folder is gone, nothing can be reached", async () => {
    expect(await use("read_file", { path: "fine.txt" }, join(root, "gone"))).toEqual({
      refused: "path_not_granted",
    });
  });

  test("a folder granted for reading is not written to", async () => {
    expect(await use("write_file", { path: "x.txt", text: "x" }, granted, false)).toEqual({
      refused: "path_not_granted",
    });
  });

  test("links are listed, not followed", async () => {
    const listed = (await use("list_folder", { recursive: true })) as {
      entries: { path: string; type: string }[];
    };
    expect(listed.entries).toContainEqual(expect.objectContaining({ path: "link-out", type: "link" }));
    expect(listed.entries.some((e) => e.path.startsWith("link-"))).toBe(true);
    expect(listed.entries.some((e) => e.path.startsWith("link-out/"))).toBe(false);
  });
});

describe("something changes between the approval and the deed", () => {
  test("a file that became a link is not read through", async () => {
    const tool = BUILT_IN_TOOLS.find((t) => t.name === "read_file");
    writeFileSync(join(granted, "swapped.txt"), "fine");
    const prepared = await tool?.prepare(tool.input.parse({ path: "swapped.txt" }), context(granted, true));
    rmSync(join(granted, "swapped.txt"));
    symlinkSync(join(outside, "secret.txt"), join(granted, "swapped.txt"));
    await expect(prepared?.run()).rejects.toMatchObject({
      code: expect.stringMatching(/not_found|path_not_granted/),
    });
  });

  test("a folder that became a link is not written into", async () => {
    const tool = BUILT_IN_TOOLS.find((t) => t.name === "write_file");
    mkdirSync(join(granted, "turns"));
    const prepared = await tool?.prepare(
      tool.input.parse({ path: "turns/new.txt", text: "x" }),
      context(granted, true),
    );
    rmSync(join(granted, "turns"), { recursive: true });
    symlinkSync(outside, join(granted, "turns"));
    await expect(prepared?.run()).rejects.toMatchObject({ code: "path_not_granted" });
    expect(() => readFileSync(join(outside, "new.txt"))).toThrow();
  });
});
