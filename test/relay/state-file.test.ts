import { execFileSync, spawn } from "node:child_process";
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { NewAttempt } from "../../relay-cli/store/contract.ts";
import { StateError } from "../../relay-cli/store/errors.ts";
import { isLocked, lockFolder } from "../../relay-cli/store/lock.ts";
import { openStore } from "../../relay-cli/store/open.ts";
import { PROJECT } from "./support/server.ts";
import { GRAPH } from "./support/world.ts";

const ROOT = resolve(import.meta.dirname, "../..");
// Each test starts processes; on a busy machine that alone takes seconds.
vi.setConfig({ testTimeout: 90_000 });

let folder: string;
let file: string;

beforeEach(() => {
  folder = join(mkdtempSync(join(tmpdir(), "graph-relay-state-")), "state");
  file = join(folder, "state.db");
});
afterEach(() => {
  chmodSync(folder, 0o700);
  rmSync(resolve(folder, ".."), { recursive: true, force: true });
});

const ATTEMPT: NewAttempt = {
  command_id: "00000000-aaaa-8000-8000-000000000001",
  attempt_id: "00000000-0000-4000-8000-000000000001",
  execution_id: "00000000-0000-4000-8000-000000000002",
  project_id: PROJECT,
  graph_session_id: GRAPH.graph_session_id,
  slug: "report",
  arguments_json: "{}",
  agent_name: "Agent",
};

function withOpenStore<T>(body: (opened: ReturnType<typeof openStore>) => T): T {
  const opened = openStore(folder);
  try {
    return body(opened);
  } finally {
    opened.store.close();
  }
}

const refusal = (): string => {
  try {
    withOpenStore(() => {});
  } catch (error) {
    if (error instanceof StateError) return error.message;
    throw error;
  }
  throw new Error("The state file was opened");
};

describe("the state file", () => {
  test("is for its owner alone, in a folder for its owner alone", () => {
    withOpenStore(({ store }) => store.graphs.add(GRAPH));
    expect(statSync(folder).mode & 0o777).toBe(0o700);
    withOpenStore(({ store }) => {
      store.graphs.remove(GRAPH.graph_session_id);
      for (const name of ["state.db", "state.db-wal", "state.db-shm"])
        expect(statSync(join(folder, name)).mode & 0o777).toBe(0o600);
    });
  });

  test("that others could read is made its owner's again", () => {
    withOpenStore(() => {});
    chmodSync(file, 0o644);
    withOpenStore(() => {});
    expect(statSync(file).mode & 0o777).toBe(0o600);
  });

  test("keeps what was stored, through closing and opening", () => {
    withOpenStore(({ store, notes }) => {
      store.graphs.add(GRAPH);
      expect(notes).toEqual([]);
    });
    withOpenStore(({ store }) => expect(store.graphs.list()).toEqual([GRAPH]));
  });

  test("writes with full synchronisation, through a write-ahead log", () => {
    withOpenStore(({ sql }) => {
      expect(sql.get("PRAGMA journal_mode")).toEqual({ journal_mode: "wal" });
      expect(sql.get("PRAGMA synchronous")).toEqual({ synchronous: 2 });
    });
  });

  test.each([
    ["of garbage", Buffer.from("no state ".repeat(100)), "is not a state file of graph-relay"],
    ["that is JSON", Buffer.from('{"device":1}'), "is not a state file of graph-relay"],
  ])("%s is refused with its path and what to do, and left as it is, twice", (_, content, wrong) => {
    mkdirSync(folder);
    writeFileSync(file, content);
    for (let n = 0; n < 2; n++) {
      const text = refusal();
      expect(text).toContain(file);
      expect(text).toContain(wrong);
      expect(text).toContain("graph-relay login");
      expect(readFileSync(file)).toEqual(content);
    }
  });

  test("that is cut off in the middle is refused, and left as it is", () => {
    withOpenStore(({ store }) => store.graphs.add(GRAPH));
    const half = readFileSync(file).subarray(0, 9_000);
    writeFileSync(file, half);
    expect(refusal()).toContain(file);
    expect(readFileSync(file)).toEqual(half);
  });

  test("of 0 bytes counts as missing, and the owner is told", () => {
    mkdirSync(folder);
    writeFileSync(file, "");
    withOpenStore(({ store, notes }) => {
      expect(notes.join()).toContain(file);
      expect(notes.join()).toContain("0 bytes");
      expect(store.device.get()).toBeUndefined();
    });
  });

  test("of another program is refused, and left as it is", () => {
    mkdirSync(folder);
    const other = new DatabaseSync(file);
    other.exec("CREATE TABLE notes (text)");
    other.close();
    const before = readFileSync(file);
    expect(refusal()).toContain("another program's");
    const after = new DatabaseSync(file, { readOnly: true });
    expect(after.prepare("SELECT name FROM sqlite_schema").all()).toHaveLength(1);
    after.close();
    expect(before.length).toBeGreaterThan(0);
  });

  test("of a newer graph-relay is refused, and left as it is", () => {
    withOpenStore(({ sql }) => sql.run("PRAGMA user_version = 99"));
    expect(refusal()).toContain("newer graph-relay");
    const after = new DatabaseSync(file, { readOnly: true });
    expect(after.prepare("PRAGMA user_version").get()).toEqual({ user_version: 99 });
    after.close();
  });

  test("where a folder should be is said by its path", () => {
    mkdirSync(resolve(folder, ".."), { recursive: true });
    writeFileSync(folder, "a file");
    expect(refusal()).toContain(file);
    rmSync(folder);
    mkdirSync(folder);
  });

  test("a failed write leaves all of the old state, and the next one goes through", () => {
    withOpenStore(({ store, sql }) => {
      store.graphs.add(GRAPH);
      expect(() =>
        sql.atomically(() => {
          store.graphs.remove(GRAPH.graph_session_id);
          throw new Error("half way");
        }),
      ).toThrow("half way");
      expect(store.graphs.list()).toEqual([GRAPH]);
      expect(store.graphs.remove(GRAPH.graph_session_id)).toBe(true);
    });
  });

  test("that is copied leaves to its original what that has under way", () => {
    withOpenStore(({ store }) => {
      store.device.pair(
        { device_id: "d", account_name: "a", server_url: "u", name: "n", private_jwk: "{}", paired_at: 0 },
        [{ project_id: PROJECT, name: "P" }],
      );
      store.graphs.add(GRAPH);
      store.projects.share(PROJECT, GRAPH.graph_session_id, 0);
      store.attempts.prepare(ATTEMPT);
      store.attempts.prepare({
        ...ATTEMPT,
        command_id: "00000000-aaaa-8000-8000-000000000002",
        execution_id: "x",
      });
      expect(store.attempts.begin(ATTEMPT.command_id, 0)).toBe(true);
    });
    withOpenStore(({ store }) => expect(store.attempts.inState("started")).toHaveLength(1));
    const original = folder;
    folder = `${original}-copy`;
    mkdirSync(folder);
    copyFileSync(file, join(folder, "state.db"));
    withOpenStore(({ store, notes }) => {
      expect(notes.join()).toContain("is a copy");
      expect(store.attempts.inState("started")).toEqual([]);
      expect(store.attempts.inState("prepared")).toEqual([]);
      expect(store.graphs.list()).toHaveLength(1);
    });
    withOpenStore(({ notes }) => expect(notes).toEqual([]));
    rmSync(folder, { recursive: true });
    folder = original;
    withOpenStore(({ store }) => expect(store.attempts.inState("started")).toHaveLength(1));
  });

  test("is made by eight processes at once without trouble", async () => {
    const script = `import { openStore } from ${JSON.stringify(join(ROOT, "relay-cli/store/open.ts"))};
      const { store } = openStore(process.argv[1]); store.projects.bumpSharingVersion(); store.close();`;
    const children = Array.from({ length: 8 }, () =>
      spawn(process.execPath, ["--input-type=module", "-e", script, folder], {
        stdio: ["ignore", "ignore", "pipe"],
      }),
    );
    const codes = await Promise.all(
      children.map(
        (child) =>
          new Promise<string>((done) => {
            let text = "";
            child.stderr.on("data", (chunk) => {
              text += chunk;
            });
            child.on("close", (code) => done(`${code}${text}`));
          }),
      ),
    );
    expect(codes).toEqual(Array.from({ length: 8 }, () => "0"));
    withOpenStore(({ store }) => expect(store.projects.sharingVersion()).toBe(8));
  });
});

describe("the guarded writes of the journal", () => {
  test("each say whether they won, and lose the second time", () => {
    withOpenStore(({ store }) => {
      store.device.pair(
        { device_id: "d", account_name: "a", server_url: "u", name: "n", private_jwk: "{}", paired_at: 0 },
        [{ project_id: PROJECT, name: "P" }],
      );
      store.graphs.add(GRAPH);
      const { attempts } = store;
      const { command_id, execution_id } = ATTEMPT;
      const completion = { execution_id, status: "failed" as const, error: "e" };
      const item = { ...ATTEMPT, completion, truncated: false, last_failure: null };
      const record = {
        execution_id,
        outcome: { status: "failed" as const, total_tokens: null, reported_cost: null },
        finished_at: 1,
      };
      expect(attempts.prepare(ATTEMPT)).toBe(true);
      expect(attempts.prepare(ATTEMPT)).toBe(false);
      expect(attempts.begin(command_id, 0), "not shared").toBe(false);
      store.projects.share(PROJECT, GRAPH.graph_session_id, 0);
      expect(attempts.finish(command_id, record, item), "not started").toBe(false);
      expect(attempts.begin(command_id, 0)).toBe(true);
      expect(attempts.begin(command_id, 0)).toBe(false);
      expect(attempts.drop(command_id, "late"), "started").toBe(false);
      expect(attempts.refuse(ATTEMPT, item), "started").toBe(false);
      expect(attempts.finish(command_id, record, item)).toBe(true);
      expect(attempts.finish(command_id, record, item)).toBe(false);
      expect(store.outbox.pending()).toHaveLength(1);
      expect(store.outbox.delivered(command_id)).toBe(true);
      expect(store.outbox.delivered(command_id)).toBe(false);
    });
  });

  test("leaving an account moves what was not sent to the dead letters, and takes the key away", () => {
    withOpenStore(({ store, sql }) => {
      store.device.pair(
        { device_id: "d", account_name: "a", server_url: "u", name: "n", private_jwk: "{}", paired_at: 0 },
        [{ project_id: PROJECT, name: "P" }],
      );
      const completion = { execution_id: ATTEMPT.execution_id, status: "cancelled" as const, error: "e" };
      const asked = { ...ATTEMPT, arguments_json: '{"folder":"/home"}' };
      store.attempts.refuse(asked, { ...ATTEMPT, completion, truncated: false, last_failure: null });
      expect(store.attempts.find(ATTEMPT.command_id)).toMatchObject({ state: "ended", arguments_json: "{}" });
      store.attempts.prepare({ ...ATTEMPT, command_id: "00000000-aaaa-8000-8000-000000000002" });
      expect(store.device.unpair(5)).toBe(1);
      expect(store.outbox.pending()).toEqual([]);
      expect(store.outbox.deadLetters()).toMatchObject([{ command_id: ATTEMPT.command_id, buried_at: 5 }]);
      expect(store.attempts.inState("prepared")).toEqual([]);
      expect(store.device.get()).toBeUndefined();
      expect(store.projects.list()).toEqual([]);
      expect(sql.all("SELECT * FROM device")).toEqual([]);
    });
  });

  test("the journal forgets the oldest ended attempts alone", () => {
    withOpenStore(({ store }) => {
      for (let n = 0; n < 10; n++) {
        const command_id = `00000000-aaaa-8000-8000-00000000000${n}`;
        store.attempts.prepare({ ...ATTEMPT, command_id });
        if (n !== 1) store.attempts.drop(command_id, "gone");
      }
      expect(store.attempts.prune(5)).toBe(4);
      expect(store.attempts.inState("prepared")).toHaveLength(1);
      expect(store.attempts.find("00000000-aaaa-8000-8000-000000000005")?.state).toBe("ended");
    });
  });
});

describe("what a call remembers", () => {
  test("one key for one intent until the server has answered", () => {
    withOpenStore(({ store }) => {
      expect(store.calls.open("intent", "key-1")).toBe("key-1");
      expect(store.calls.open("intent", "key-2")).toBe("key-1");
      expect(store.calls.open("other", "key-3")).toBe("key-3");
      store.calls.close("intent");
      expect(store.calls.open("intent", "key-4")).toBe("key-4");
    });
  });

  test("tokens that a sibling renewed meanwhile are not thrown away with the old ones", () => {
    withOpenStore(({ store }) => {
      store.calls.saveLogin("https://a", { client: "client" });
      store.calls.saveLogin("https://a", { tokens: "old" });
      store.calls.saveLogin("https://a", { tokens: "new" });
      store.calls.dropTokens("https://a", "old");
      expect(store.calls.login("https://a")).toEqual({ client: "client", tokens: "new" });
      store.calls.dropTokens("https://a", "new");
      expect(store.calls.login("https://a")).toEqual({ client: "client", tokens: null });
    });
  });
});

describe("the lock of a state folder", () => {
  test("lets one relay in, and the next one after it", () => {
    const first = lockFolder(folder);
    expect(first).toBeDefined();
    expect(isLocked(folder)).toBe(true);
    expect(lockFolder(folder)).toBeUndefined();
    first?.release();
    expect(isLocked(folder)).toBe(false);
    lockFolder(folder)?.release();
  });

  test("ends with its process, however that ends, and does not look at process ids", async () => {
    const script = `import { lockFolder } from ${JSON.stringify(join(ROOT, "relay-cli/store/lock.ts"))};
      lockFolder(process.argv[1]); console.log("locked"); setInterval(() => {}, 1000);`;
    const child = spawn(process.execPath, ["--input-type=module", "-e", script, folder], {
      stdio: ["ignore", "pipe", "ignore"],
    });
    await new Promise((done) => child.stdout.once("data", done));
    expect(isLocked(folder)).toBe(true);
    const gone = new Promise((done) => child.on("close", done));
    child.kill("SIGKILL");
    await gone;
    expect(isLocked(folder)).toBe(false);
    // Whatever a process id would say: pid 1 lives, and so does this test's parent.
    for (const pid of ["1", String(process.ppid), String(process.pid)]) {
      writeFileSync(join(folder, "relay.pid"), pid);
      lockFolder(folder)?.release();
      expect(isLocked(folder)).toBe(false);
    }
  });

  test("is not handed down to child processes", () => {
    const lock = lockFolder(folder);
    const child = spawn("sleep", ["30"], { stdio: "ignore" });
    lock?.release();
    expect(isLocked(folder)).toBe(false);
    child.kill("SIGKILL");
  });

  test("shows no secret of the device to other processes", () => {
    withOpenStore(({ store }) =>
      store.device.pair(
        {
          device_id: "d",
          account_name: "a",
          server_url: "u",
          name: "n",
          private_jwk: '{"d":"secret"}',
          paired_at: 0,
        },
        [],
      ),
    );
    const status = execFileSync(
      process.execPath,
      [join(ROOT, "relay-cli/main.ts"), "--state", folder, "status", "--json"],
      {
        encoding: "utf8",
      },
    );
    expect(status).not.toContain("secret");
  });
});
