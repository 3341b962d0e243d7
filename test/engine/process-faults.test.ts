import { afterAll, describe, expect, test, vi } from "vitest";
import { systemPorts } from "../../relay-cli/engine/index.ts";
import { ENGINE_LIMITS } from "../../relay-cli/engine/limits.ts";
import { checkLeftovers, openWorkshop, processesWith, shortGrace } from "./support/workshop.ts";

// Each test starts processes; on a busy machine that alone takes seconds.
vi.setConfig({ testTimeout: 90_000 });

const GRACE = 500;
const shop = openWorkshop(
  { trusted: { trusted: true }, small: { memory_megabytes: 64 }, brief: { max_run_seconds: 1 } },
  { clock: shortGrace(GRACE) },
);
afterAll(() => shop.close());

checkLeftovers({ descriptors: true });

/** Runs a Graph while looking at how long this process's own loop is held up. */
async function runAndWatch(slug: string, body: string) {
  shop.graph(slug, body);
  let last = performance.now();
  let worst = 0;
  const timer = setInterval(() => {
    worst = Math.max(worst, performance.now() - last);
    last = performance.now();
  }, 5);
  const run = await shop.run(slug);
  clearInterval(timer);
  return { ...run, worst };
}

describe("a Graph that misbehaves is a failed run, and its caller goes on", () => {
  test.each([
    [
      "throws an error",
      'throw new TypeError("no such mail");',
      /^TypeError: no such mail \(at throws-an-error\.mjs:2:\d+\)$/,
    ],
    ["throws nothing", "throw null;", /It threw null, which is no error/],
    ["throws a text", 'throw "bad luck";', /It threw the text "bad luck"/],
    [
      "throws an object that throws",
      "throw new Proxy({}, { get() { throw 1; }, ownKeys() { throw 1; } });",
      /cannot be shown/,
    ],
    ["exits", "process.exit(3);", /ended its process \(exit code 3\) before it returned/],
    ["exits with nothing wrong", "process.exit(0);", /ended its process \(exit code 0\) before it returned/],
    ["aborts", "process.abort();", /ended by SIGABRT before it returned/],
    ["waits for nothing", "await new Promise(() => {});", /waits for something that can never come/],
    [
      "rejects unheard",
      'void Promise.reject(new Error("unheard")); await new Promise((r) => setTimeout(r, 1e6));',
      /unheard/,
    ],
    [
      "throws from a timer",
      'setTimeout(() => { throw new Error("late"); }, 1); await new Promise((r) => setTimeout(r, 1e6));',
      /late/,
    ],
    ["kills its parent", "process.kill(process.ppid, 'SIGKILL');", /process\.kill is not available/],
    ["starts a process", "(await import('node:child_process')).execSync('true');", /restricted/],
    [
      "starts a worker",
      "new (await import('node:worker_threads')).Worker('1', { eval: true });",
      /restricted/,
    ],
    ["reads a file of its own accord", "(await import('node:fs')).readFileSync('/etc/hosts');", /restricted/],
    ["writes a file of its own accord", "(await import('node:fs')).writeFileSync('x', '');", /restricted/],
    [
      "fetches of its own accord",
      "await fetch('http://127.0.0.1:9/');",
      /reaches the network by tool\("fetch"\)/,
    ],
    [
      "opens a connection",
      "(await import('node:net')).connect(9, '127.0.0.1');",
      /reaches the network by tool/,
    ],
    [
      "opens a connection by way of its output",
      "new process.stdout.constructor().connect(9);",
      /reaches the network by tool/,
    ],
    [
      "asks a name server",
      "await (await import('node:dns/promises')).lookup('localhost');",
      /reaches the network by tool/,
    ],
    [
      "sends a datagram",
      "(await import('node:dgram')).createSocket('udp4').send('x', 9, '127.0.0.1');",
      /reaches the network by tool/,
    ],
    ["listens", "(await import('node:http')).createServer().listen(0);", /reaches the network by tool/],
    ["uses Node's own bindings", "process.binding('tcp_wrap');", /process\.binding/],
    [
      "writes to the channel",
      "(await import('node:fs')).writeSync(3, 'nonsense\\n'); await new Promise((r) => setTimeout(r, 1e6));",
      /sent a line that is no frame/,
    ],
    [
      "sends a forged message",
      '(await import(\'node:fs\')).writeSync(3, \'M.{"t":"call","id":"x"}\\n\'); await new Promise((r) => setTimeout(r, 1e6));',
      /a message that is not the engine's/,
    ],
    [
      "has no line end",
      "const { writeSync } = await import('node:fs'); writeSync(3, 'M.'); for (;;) { try { writeSync(3, 'x'.repeat(60000)); } catch {} await new Promise((r) => setImmediate(r)); }",
      /a line without an end/,
    ],
  ])("%s", async (name, body, error) => {
    const { outcome } = await runAndWatch(name.replaceAll(" ", "-"), body);
    expect(outcome).toMatchObject({
      status: "failed",
      error: expect.stringMatching(error),
      total_tokens: null,
    });
  });

  test("a module that does not parse, has no function, or never loads", async () => {
    shop.graph("unparsed", "export default async ( => 1");
    shop.graph("no-function", "export default 1;");
    shop.graph("never-loads", "await new Promise(() => {}); export default () => 1;");
    expect((await shop.run("unparsed")).outcome.error).toBe(
      "SyntaxError: Unexpected token '=>' (at unparsed.mjs:1)",
    );
    expect((await shop.run("no-function")).outcome.error).toMatch(/has no default function/);
    expect((await shop.run("never-loads")).outcome.error).toMatch(/can never come/);
    expect((await shop.run("not-there")).outcome.error).toMatch(/not-there\.mjs is not there/);
  });

  test("one that uses up its memory is told so", async () => {
    const { outcome } = await runAndWatch(
      "small",
      "const all = []; for (;;) all.push(new Array(1000).fill({}));",
    );
    expect(outcome).toMatchObject({
      status: "failed",
      error: "The Graph used more than its 64 MB of memory.",
    });
  });

  test("one that uses up memory outside of its heap is ended too", async () => {
    const { outcome } = await runAndWatch(
      "small",
      "const all = []; for (;;) { all.push(Buffer.alloc(10_000_000, 1)); await new Promise((r) => setTimeout(r, 20)); }",
    );
    expect(outcome).toMatchObject({
      status: "failed",
      error: "The Graph used more than its 64 MB of memory.",
    });
  });

  test("one that floods its log: the log is cut, what was dropped is counted, this process stays awake", async () => {
    const { outcome, logs, worst } = await runAndWatch(
      "flood",
      "for (let i = 0; i < 50_000; i++) { api.log('x'.repeat(1000)); if (i % 500 === 0) await new Promise((r) => setImmediate(r)); }",
    );
    expect(outcome.status).toBe("completed");
    expect(logs.length).toBeLessThanOrEqual(ENGINE_LIMITS.logLines + 1);
    expect(logs.join("").length).toBeLessThanOrEqual(ENGINE_LIMITS.logCharacters + 100);
    expect(logs.at(-1)).toMatch(/^\(\d+ more lines were written and not kept\)$/);
    expect(worst).toBeLessThan(3_000);
  });

  test("output written past the log is kept with it", async () => {
    const { logs } = await runAndWatch(
      "prints",
      "process.stdout.write('one\\ntwo'); process.stderr.write('three\\n'); console.log('four %d', 4);",
    );
    expect(logs.toSorted()).toEqual(["four 4", "one", "three", "two"]);
  });

  test("one that runs too long is stopped", async () => {
    const { outcome } = await runAndWatch("brief", "for (;;) await new Promise((r) => setTimeout(r, 100));");
    expect(outcome).toMatchObject({
      status: "failed",
      error: "The Graph ran for more than its 1 s and was stopped.",
    });
  });

  test("one that leaves children behind: they are gone when the run has ended", async () => {
    const marker = `marker-${crypto.randomUUID()}`;
    const { outcome } = await runAndWatch(
      "trusted",
      `const { spawn } = await import("node:child_process");
       spawn("sh", ["-c", "sleep 999 & sleep 999 # ${marker}"], { stdio: "inherit" });
       spawn(process.execPath, ["-e", "process.on('SIGTERM', () => {}); setInterval(() => {}, 1e3) // ${marker}"], { stdio: "inherit" });
       spawn("sh", ["-c", "sleep 999; : ${marker}"], { detached: true, stdio: "ignore" }).unref();
       spawn("sh", ["-c", "setsid sh -c 'setsid sleep 999; : ${marker}' &"], { detached: true, stdio: "ignore" }).unref();
       await new Promise((r) => setTimeout(r, 300));
       return "done";`,
    );
    expect(outcome).toMatchObject({ status: "completed", result_json: '"done"' });
    expect(processesWith(marker)).toEqual([]);
  });

  test("one that leaves timers running still ends", async () => {
    const { outcome } = await runAndWatch("open", "setInterval(() => {}, 10); return 1;");
    expect(outcome).toMatchObject({ status: "completed", result_json: "1" });
  });
});

describe("a run that is told to stop", () => {
  const stopWhen = (slug: string, ready: (line: string) => boolean) => {
    let run_id = "";
    const answers: boolean[] = [];
    return shop
      .run(
        slug,
        {},
        {
          onEvent(event) {
            if (event.type === "fleet_started") ({ run_id } = event);
            if (event.type === "log" && ready(event.line))
              answers.push(shop.engine.fleetCancelRun(run_id), shop.engine.fleetCancelRun(run_id));
          },
        },
      )
      .then((run) => ({ ...run, answers, run_id }));
  };
  const isReady = (line: string): boolean => line === "ready";

  test("gets the signal, may tidy up, and ends cancelled; the cancel is taken once", async () => {
    shop.graph(
      "tidies",
      "api.log('ready'); try { await new Promise((_, no) => { setTimeout(() => {}, 1e6); api.signal.addEventListener('abort', () => no(api.signal.reason)); }); } finally { api.log('tidied up'); }",
    );
    const { outcome, logs, answers, run_id } = await stopWhen("tidies", isReady);
    expect(outcome).toMatchObject({ status: "cancelled", error: "The run was told to stop." });
    expect(outcome.finished_before_stop).toBeUndefined();
    expect(logs).toEqual(["ready", "tidied up"]);
    expect(answers).toEqual([true, false]);
    expect(shop.engine.fleetCancelRun(run_id)).toBe(false);
  });

  test.each([
    ["spins", "api.log('ready'); await new Promise((r) => setImmediate(r)); for (;;);"],
    [
      "ignores it",
      "process.removeAllListeners('SIGTERM'); process.on('SIGTERM', () => {}); setInterval(() => {}, 1e3); api.log('ready'); await new Promise(() => {});",
    ],
  ])("%s: is killed after the grace", async (name, body) => {
    shop.graph(name.replaceAll(" ", "-"), body);
    const began = performance.now();
    const { outcome } = await stopWhen(name.replaceAll(" ", "-"), isReady);
    expect(outcome.status).toBe("cancelled");
    expect(outcome.finished_before_stop).toBeUndefined();
    expect(performance.now() - began).toBeGreaterThan(GRACE);
  });

  test("finishes all the same: cancelled, and the record says that its effects happened", async () => {
    shop.graph("finishes", "api.log('ready'); await new Promise((r) => setTimeout(r, 100)); return 'sent';");
    const { outcome } = await stopWhen("finishes", isReady);
    expect(outcome).toMatchObject({ status: "cancelled", finished_before_stop: true, result_json: '"sent"' });
  });

  test("takes its children along, those that ignore SIGTERM too", async () => {
    const marker = `marker-${crypto.randomUUID()}`;
    shop.graph(
      "trusted",
      `(await import("node:child_process")).spawn("sh", ["-c", "trap '' TERM; sleep 999 & while :; do sleep 1; done # ${marker}"]);
       await new Promise((r) => setTimeout(r, 200)); api.log("ready"); await new Promise((r) => setTimeout(r, 1e6));`,
    );
    const { outcome } = await stopWhen("trusted", isReady);
    expect(outcome.status).toBe("cancelled");
    expect(processesWith(marker)).toEqual([]);
  });

  test("a run that is not there cannot be cancelled", () => {
    expect(shop.engine.fleetCancelRun(crypto.randomUUID())).toBe(false);
    expect(shop.engine.fleetCancelRun("__proto__")).toBe(false);
  });
});

test("where a child cannot be given a group of its own, a stop ends it and not its caller", async () => {
  const { processes } = systemPorts;
  const sameGroup = openWorkshop(
    {},
    {
      clock: shortGrace(GRACE),
      processes: { ...processes, spawn: (c, a, o) => processes.spawn(c, a, { ...o, detached: false }) },
    },
  );
  sameGroup.graph("stuck", "api.log('ready'); await new Promise((r) => setTimeout(r, 1e6));");
  let run_id = "";
  const { outcome } = await sameGroup.run(
    "stuck",
    {},
    {
      onEvent(event) {
        if (event.type === "fleet_started") ({ run_id } = event);
        if (event.type === "log") sameGroup.engine.fleetCancelRun(run_id);
      },
    },
  );
  sameGroup.close();
  expect(outcome.status).toBe("cancelled");
});
