import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { EXIT_CODES } from "../../relay-cli/exit-codes.ts";
import { lockFolder } from "../../relay-cli/store/lock.ts";
import { Cli, MAIN } from "./support/cli.ts";
import { PROJECT } from "./support/server.ts";
import { CERTIFICATE, KEY } from "./support/tls.ts";
import { GRAPH } from "./support/world.ts";

// Each test starts processes; on a busy machine that alone takes seconds.
vi.setConfig({ testTimeout: 90_000 });

let cli: Cli;
beforeEach(() => {
  cli = new Cli();
});
afterEach(() => cli.remove());

/** A state folder with enough in it that every listing is long. */
async function filled(): Promise<void> {
  // Nobody listens on the discard port.
  await cli.pair("http://127.0.0.1:9");
  cli.store((store) => {
    for (let n = 0; n < 300; n++) {
      const slug = `graph-${n}`;
      const graph_session_id = `gs_${n.toString(16).padStart(32, "0")}`;
      store.graphs.add({ ...GRAPH, slug, graph_session_id, path: `/graphs/${slug}.mjs` });
      if (n < 100) store.projects.share(PROJECT, graph_session_id, 0);
      store.history.begin(
        {
          execution_id: `00000000-0000-4000-8000-${n.toString(16).padStart(12, "0")}`,
          channel: "graph:local:x",
          command_id: null,
          project_id: null,
          graph_session_id,
          slug,
          agent_name: "Agent",
          arguments_json: "{}",
          started_at: n,
        },
        process.pid,
      );
    }
  });
}

const LISTINGS = [
  "graph list",
  "graph list --json",
  "history list --limit 300",
  "history list --limit 300 --json",
  "status",
  "status --json",
];

describe("listings", () => {
  test("may be cut off by `| head -1`: exit 0 and nothing on stderr, each time", async () => {
    await filled();
    const script = LISTINGS.map(
      (words) =>
        `node ${MAIN} --state ${cli.folder} ${words} | head -1 > /dev/null; echo "\${PIPESTATUS[0]}"`,
    ).join("\n");
    const { stdout, stderr } = spawnSync("bash", ["-c", script], { encoding: "utf8" });
    expect(stderr).toBe("");
    expect(stdout.trim().split("\n")).toEqual(LISTINGS.map(() => "0"));
  });

  test("as JSON are JSON alone on stdout, whatever else there is to say", async () => {
    await filled();
    const env = { HTTPS_PROXY: "http://127.0.0.1:9", FORCE_COLOR: "1" };
    for (const words of LISTINGS.filter((one) => one.endsWith("--json"))) {
      const { code, stdout } = await cli.run(words.split(" "), { env });
      expect(code).toBe(0);
      expect(() => JSON.parse(stdout)).not.toThrow();
    }
  });

  test("have no escape sequences, on whatever terminal", async () => {
    await filled();
    for (const env of [
      { FORCE_COLOR: "1", COLUMNS: "20" },
      { NO_COLOR: "1", TERM: "dumb" },
    ]) {
      const { stdout, stderr } = await cli.run(["status"], { env });
      expect(`${stdout}${stderr}`).not.toContain("\u001b");
    }
  });

  test("show no control characters of others", async () => {
    await filled();
    cli.store((store) => store.projects.setKnown([{ project_id: PROJECT, name: "evil\u001b[2J\u202ename" }]));
    const { stdout } = await cli.run(["status"]);
    expect(stdout).toContain("name");
    for (const mark of ["\u001b", "\u202e"]) expect(stdout).not.toContain(mark);
  });

  test("nor does any other line, whoever it quotes", async () => {
    await filled();
    const evil = "evil\u001b[2J\u009b\u202e";
    cli.store((store) => {
      store.projects.setKnown([{ project_id: PROJECT, name: evil }]);
      const graph = store.graphs.find("graph-1");
      if (graph) store.graphs.update({ ...graph, name: evil });
    });
    for (const words of [
      ["unshare", "graph-2"],
      ["graph", "list"],
      ["share", evil],
      ["history", "show", evil],
    ]) {
      const { stdout, stderr } = await cli.run(words);
      expect(stdout + stderr).toContain("evil");
      for (const mark of ["\u001b", "\u009b", "\u202e"]) expect(stdout + stderr).not.toContain(mark);
    }
  });
});

describe("exit codes", () => {
  test.each([
    ["an unknown command", ["foo"], "usage"],
    ["an unknown option", ["status", "--foo"], "usage"],
    ["a Graph that is not there", ["run", "foo"], "usage"],
    ["arguments that are no object", ["call", "x", "[1]", "--url", "http://127.0.0.1:9"], "usage"],
    ["an execution that is not there", ["history", "show", "foo"], "usage"],
    ["a concurrency that is none", ["start", "--concurrency", "0"], "usage"],
    ["a file that is not there", ["graph", "add", "/nowhere/x.mjs"], "usage"],
    ["http to another machine", ["login", "http://relay.example", "--code"], "usage"],
    ["a start without pairing", ["start"], "not_paired"],
    ["a call without an endpoint", ["call", "x"], "not_paired"],
    ["a version", ["--version"], "done"],
  ] as const)("%s", async (_, words, exit) => {
    const { code, stderr } = await cli.run(words);
    expect({ code, stderr: exit === "done" || stderr !== "" }).toEqual({
      code: EXIT_CODES[exit][0],
      stderr: true,
    });
    expect(stderr).not.toContain("    at ");
  });

  test("a second relay on the folder", async () => {
    await cli.pair("http://127.0.0.1:9");
    const lock = lockFolder(cli.folder);
    const { code, stderr } = await cli.run(["start"]);
    lock?.release();
    expect(code).toBe(EXIT_CODES.already_running[0]);
    expect(stderr).toContain(cli.folder);
  });

  test("a server that is not there", async () => {
    await cli.pair("http://127.0.0.1:9");
    const { code, stderr } = await cli.run(["projects"]);
    expect(code).toBe(EXIT_CODES.unreachable[0]);
    expect(stderr).toContain("cannot be reached");
  });

  test("a state file that cannot be used", async () => {
    const file = join(cli.folder, "state.db");
    writeFileSync(file, "garbage, garbage, garbage");
    for (const words of [
      ["status"],
      ["start"],
      ["graph", "list"],
      ["login", "http://127.0.0.1:9", "--code"],
    ]) {
      const { code, stderr } = await cli.run(words, { stdin: "CODE" });
      expect(code).toBe(EXIT_CODES.state_unusable[0]);
      expect(stderr).toContain(file);
    }
    expect(readFileSync(file, "utf8")).toBe("garbage, garbage, garbage");
  });

  test("are all in the readme", () => {
    const readme = readFileSync(join(import.meta.dirname, "../../relay-cli/README.md"), "utf8");
    for (const [code, meaning] of Object.values(EXIT_CODES))
      expect(readme).toContain(`| ${code} | ${meaning} |`);
  });

  test("are all in the help", async () => {
    const { stdout } = await cli.run(["--help"]);
    for (const [code, meaning] of Object.values(EXIT_CODES)) {
      expect(stdout).toContain(` ${code}  `);
      expect(stdout.replace(/\s+/g, " ")).toContain(meaning);
    }
  });
});

describe("without anybody at the terminal", () => {
  test("a login asks nothing and waits for nobody", async () => {
    const { code, stderr } = await cli.run(["login", "http://127.0.0.1:9"]);
    expect(code).toBe(EXIT_CODES.unreachable[0]);
    expect(stderr).toContain("cannot be reached");
  });

  test("a login with a code and none on standard input says where one comes from", async () => {
    const { code, stderr } = await cli.run(["login", "http://127.0.0.1:9", "--code"]);
    expect(code).toBe(EXIT_CODES.usage[0]);
    expect(stderr).toContain("account page");
    expect(cli.store((store) => store.device.get())).toBeUndefined();
  });

  test("an enrolment code is never taken from the command line", async () => {
    const { code } = await cli.run(["login", "http://127.0.0.1:9", "--code", "SECRET-CODE"]);
    expect(code).toBe(EXIT_CODES.usage[0]);
  });
});

describe("certificates", () => {
  test("of the network's own authority: refused by name without --ca-file, taken with it", async () => {
    const server = createServer({ cert: CERTIFICATE, key: KEY }, (_, response) =>
      response.writeHead(404).end("no endpoint"),
    );
    await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
    await cli.pair(`https://localhost:${(server.address() as AddressInfo).port}`);
    const file = join(cli.folder, "ca.pem");
    writeFileSync(file, CERTIFICATE);
    const without = await cli.run(["projects"]);
    const trusted = [
      await cli.run(["--ca-file", file, "projects"]),
      await cli.run(["projects"], { env: { NODE_EXTRA_CA_CERTS: file } }),
    ];
    server.close();
    expect(without.code).toBe(EXIT_CODES.unreachable[0]);
    expect(without.stderr).toContain("self-signed certificate");
    expect(without.stderr).toContain("NODE_EXTRA_CA_CERTS");
    for (const { stderr } of trusted) expect(stderr).toContain("(404) is not the relay API's");
  });

  test("a --ca-file that is none is said by its path", async () => {
    const file = join(cli.folder, "ca.pem");
    writeFileSync(file, "no certificate");
    for (const path of [file, "/nowhere/ca.pem"]) {
      const { code, stderr } = await cli.run(["--ca-file", path, "status"]);
      expect(code).toBe(EXIT_CODES.usage[0]);
      expect(stderr).toContain(path);
    }
  });
});

test("the state folder can come from the environment", async () => {
  const out = execFileSync(process.execPath, [MAIN, "status", "--json"], {
    env: { ...process.env, GRAPH_RELAY_STATE: cli.folder },
    encoding: "utf8",
  });
  expect(JSON.parse(out)).toMatchObject({ state_folder: cli.folder, device: null, relay_running: false });
  chmodSync(cli.folder, 0o700);
});
