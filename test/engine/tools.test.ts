import { once } from "node:events";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, describe, expect, test, vi } from "vitest";
import type { Json } from "../../relay-cli/engine/contract.ts";
import { checkLeftovers, openWorkshop, processesWith } from "./support/workshop.ts";

// Each test starts processes; on a busy machine that alone takes seconds.
vi.setConfig({ testTimeout: 90_000 });

const all = {
  read_file: "allow",
  write_file: "allow",
  list_folder: "allow",
  shell: "allow",
  fetch: "allow",
} as const;
const settings: Record<string, object> = {};
const shop = openWorkshop(settings, {
  env: { PATH: process.env.PATH, HOME: "/nowhere", API_KEY: "sk-secret" },
});
const data = join(shop.folder, "data");
mkdirSync(data);
settings.uses = { folders: [{ path: data, write: true }], approvals: all };
shop.graph(
  "uses",
  "try { return await api.tool(api.args.tool, api.args.input); } catch (e) { return { code: e.code, message: e.message }; }",
);
const use = async (tool: string, input: Json) =>
  (await shop.run("uses", { tool, input })).result as Record<string, unknown>;

const http = createServer((req, res) => {
  const path = req.url ?? "";
  if (path === "/away") return res.writeHead(302, { location: "http://127.0.0.1:9/secret" }).end();
  if (path === "/here") return res.writeHead(302, { location: "/echo" }).end();
  if (path === "/loop") return res.writeHead(302, { location: "/loop" }).end();
  if (path === "/endless") {
    const write = (): void => {
      while (!res.destroyed && res.write("x".repeat(65_536)));
      if (!res.destroyed) res.once("drain", write);
    };
    return write();
  }
  let body = "";
  req.on("data", (text) => {
    body += text;
  });
  req.on("end", () =>
    res
      .writeHead(200, { "x-seen": "1" })
      .end(JSON.stringify({ method: req.method, path, body, key: req.headers["x-key"] })),
  );
});
http.listen(0, "127.0.0.1");
await once(http, "listening");
const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
checkLeftovers();
afterAll(async () => {
  shop.close();
  http.closeAllConnections();
  http.close();
  await once(http, "close");
});

describe("read_file", () => {
  test("gives a text in parts, and bytes as base64", async () => {
    writeFileSync(join(data, "long.txt"), "abcdef");
    expect(await use("read_file", { path: "long.txt", offset: 2, max_bytes: 3 })).toMatchObject({
      text: "cde",
      size: 6,
      truncated: true,
    });
    writeFileSync(join(data, "bytes.bin"), Buffer.from([0, 1, 255]));
    expect(await use("read_file", { path: "bytes.bin" })).toMatchObject({
      code: "invalid_input",
      message: expect.stringMatching(/no text; read it as base64/),
    });
    expect(await use("read_file", { path: "bytes.bin", encoding: "base64" })).toMatchObject({ text: "AAH/" });
  });

  test("says what is wrong with what it is asked", async () => {
    expect(await use("read_file", { path: "gone.txt" })).toEqual({
      code: "not_found",
      message: '"gone.txt" is not there.',
    });
    expect(await use("read_file", { path: "." })).toMatchObject({
      code: "invalid_input",
      message: expect.stringMatching(/is no file/),
    });
    expect(await use("read_file", { pfad: "x" })).toMatchObject({
      code: "invalid_input",
      message: expect.stringMatching(/^read_file: path: .*pfad/),
    });
    expect(await use("read_file", "x")).toMatchObject({ code: "invalid_input" });
    expect(await use("fly", {})).toMatchObject({ code: "not_found" });
    expect(await use("__proto__", {})).toMatchObject({ code: "not_found" });
    expect(await use("constructor__x", {})).toMatchObject({ code: "not_found" });
  });

  test("a pipe does not hold it up", async () => {
    expect(await use("shell", { command: "mkfifo pipe" })).toMatchObject({ exit_code: 0 });
    expect(await use("read_file", { path: "pipe" })).toMatchObject({ code: "invalid_input" });
  });
});

describe("list_folder", () => {
  test("stops at max_entries and says so", async () => {
    mkdirSync(join(data, "many", "deep"), { recursive: true });
    for (let i = 0; i < 20; i++) writeFileSync(join(data, "many", "deep", `${i}.txt`), "x");
    const some = await use("list_folder", { path: "many", recursive: true, max_entries: 5 });
    expect(some).toMatchObject({ truncated: true, path: join(data, "many") });
    expect(some.entries).toHaveLength(5);
    const most = await use("list_folder", { path: "many", recursive: true, ignore: ["3.txt"] });
    expect(most.entries).toHaveLength(20);
    expect(await use("list_folder", { path: "none" })).toMatchObject({ code: "not_found" });
  });
});

describe("write_file", () => {
  test("creates, replaces with the old rights, and appends", async () => {
    expect(await use("write_file", { path: "new.txt", text: "é" })).toEqual({
      path: join(data, "new.txt"),
      bytes: 2,
    });
    chmodSync(join(data, "new.txt"), 0o600);
    await use("write_file", { path: "new.txt", text: "two\n" });
    expect(statSync(join(data, "new.txt")).mode & 0o777).toBe(0o600);
    await use("write_file", { path: "new.txt", text: "three\n", append: true });
    expect(readFileSync(join(data, "new.txt"), "utf8")).toBe("two\nthree\n");
    expect(readdirSync(data).filter((name) => name.endsWith(".tmp"))).toEqual([]);
  });

  test("does not make folders, nor write over a link or a folder", async () => {
    expect(await use("write_file", { path: "no/such/x.txt", text: "" })).toMatchObject({ code: "not_found" });
    expect(await use("write_file", { path: "many", text: "" })).toMatchObject({ code: "path_not_granted" });
    expect(await use("write_file", { path: "..", text: "" })).toMatchObject({
      code: expect.stringMatching(/invalid_input|path_not_granted/),
    });
  });

  test("what is shown for approval is the whole new text", async () => {
    const { events } = await shop.run("uses", {
      tool: "write_file",
      input: { path: "shown.txt", text: "line one\nline two" },
    });
    expect(events).toContainEqual({
      type: "tool_used",
      tool: "write_file",
      decision: "allowed",
      by: "setting",
      request: `create ${join(data, "shown.txt")}, 17 bytes:\nline one\nline two`,
    });
  });
});

describe("shell", () => {
  test("gives exit code and output, in the folder, without the owner's secrets", async () => {
    expect(
      await use("shell", { command: "pwd; echo $HOME; env | grep -c KEY; echo no >&2; exit 3" }),
    ).toEqual({
      exit_code: 3,
      stdout: `${data}\n/nowhere\n0\n`,
      stderr: "no\n",
      truncated: false,
      timed_out: false,
    });
  });

  test("is cut in time and in output, and leaves nothing running", async () => {
    const marker = `marker-${crypto.randomUUID()}`;
    expect(
      await use("shell", { command: `sleep 998 & sleep 999 # ${marker}`, timeout_seconds: 1 }),
    ).toMatchObject({ timed_out: true, exit_code: null });
    expect(processesWith(marker)).toEqual([]);
    const loud = await use("shell", { command: "head -c 700000 /dev/zero | tr '\\0' x" });
    expect(loud).toMatchObject({ truncated: true, exit_code: 0 });
    expect(String(loud.stdout)).toHaveLength(500_000);
    expect(await use("shell", { command: `(sleep 999; : ${marker}) & echo started` })).toMatchObject({
      stdout: "started\n",
    });
    expect(processesWith(marker)).toEqual([]);
  });

  test("ends with its run", async () => {
    const marker = `marker-${crypto.randomUUID()}`;
    settings["walks-off"] = settings.uses ?? {};
    shop.graph(
      "walks-off",
      `void api.tool('shell', { command: 'sleep 999 # ${marker}' }).catch(() => {}); await new Promise((r) => setTimeout(r, 200)); return 1;`,
    );
    expect((await shop.run("walks-off")).outcome.status).toBe("completed");
    expect(processesWith(marker)).toEqual([]);
  });
});

describe("fetch", () => {
  test("sends what it says and gives what comes", async () => {
    const sent = await use("fetch", {
      url: `${url}/echo`,
      method: "POST",
      headers: { "x-key": "k" },
      body: "hi",
    });
    expect(sent).toMatchObject({ status: 200, headers: { "x-seen": "1" }, truncated: false });
    expect(JSON.parse(String(sent.text))).toEqual({ method: "POST", path: "/echo", body: "hi", key: "k" });
  });

  test("follows a redirect on the same server, and gives back one to another place", async () => {
    expect(await use("fetch", { url: `${url}/here` })).toMatchObject({ status: 200, url: `${url}/echo` });
    expect(await use("fetch", { url: `${url}/away` })).toMatchObject({
      status: 302,
      headers: { location: "http://127.0.0.1:9/secret" },
    });
    expect(await use("fetch", { url: `${url}/loop` })).toMatchObject({ status: 302 });
  });

  test("stops reading at two million bytes", async () => {
    const endless = await use("fetch", { url: `${url}/endless` });
    expect(endless).toMatchObject({ truncated: true });
    expect(String(endless.text)).toHaveLength(2_000_000);
  });

  test.each([
    [{ url: "file:///etc/passwd" }, /url/],
    [{ url: "http://user:pw@127.0.0.1/" }, /no user name or password/],
    [{ url: `${"http://127.0.0.1:9/"}`, body: "x" }, /a GET has no body/],
    [{ url: "http://x/", headers: { "a b": "c" } }, /headers/],
  ])("refuses %j", async (input, message) => {
    expect(await use("fetch", input)).toMatchObject({
      code: "invalid_input",
      message: expect.stringMatching(message),
    });
  });
});

test("none of it works where the owner said deny, and nothing is done", async () => {
  settings.denied = {
    folders: [{ path: data, write: true }],
    approvals: { write_file: "deny", read_file: "deny" },
  };
  shop.graph(
    "denied",
    "try { await api.tool('write_file', { path: 'denied.txt', text: 'x' }); } catch (e) { return e.code; }",
  );
  const { result, events } = await shop.run("denied");
  expect(result).toBe("tool_denied");
  expect(existsSync(join(data, "denied.txt"))).toBe(false);
  expect(events).toContainEqual(
    expect.objectContaining({ type: "tool_used", decision: "refused", by: "setting" }),
  );
});
