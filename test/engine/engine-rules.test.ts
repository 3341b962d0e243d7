import { afterAll, afterEach, describe, expect, test, vi } from "vitest";
import { retry } from "../../relay-cli/engine/host/retry.ts";
import { engineConfig } from "../../relay-cli/engine/index.ts";
import { startModelServer } from "./support/model-server.ts";
import { checkLeftovers, openWorkshop } from "./support/workshop.ts";

// Each test starts processes; on a busy machine that alone takes seconds.
vi.setConfig({ testTimeout: 90_000 });

const server = await startModelServer();
const config = engineConfig.parse({
  default_model: "local/small",
  providers: {
    local: {
      kind: "openai-compatible",
      base_url: server.url,
      prices: { "*": { input_per_million: 100, output_per_million: 100 } },
    },
  },
});
const shop = openWorkshop(
  {
    capped: { token_ceiling: 300 },
    waves: { token_ceiling: 300 },
    "capped-child": { token_ceiling: 150 },
    unlimited: { token_ceiling: null },
  },
  { config: async () => config },
);
checkLeftovers();
afterEach(() => server.reset());
afterAll(async () => {
  shop.close();
  await server.close();
});

// Each answer of the model takes 100 tokens: 60 in, 40 out.
describe("the token ceiling", () => {
  test("refuses the next agent once it is reached, with an error the Graph can catch; the total is reported", async () => {
    shop.graph(
      "capped",
      "let n = 0; try { for (;;) { await api.agent('x'); n++; } } catch (e) { return { n, code: e.code, message: e.message }; }",
    );
    const { result, outcome } = await shop.run("capped");
    expect(result).toEqual({
      n: 3,
      code: "token_ceiling",
      message: "The token ceiling of capped is reached: 300 of 300 are used. No further agent is started.",
    });
    expect(outcome).toMatchObject({ status: "completed", total_tokens: 300, reported_cost: 0.03 });
    expect(server.requests).toHaveLength(3);
  });

  test("refuses a whole next wave; the wave under way finishes, past the ceiling", async () => {
    server.answer = () => ({ text: "ok", afterMilliseconds: 50 });
    shop.graph(
      "waves",
      `const wave = () => api.parallel(Array.from({ length: 5 }, () => () => api.agent('x')), { maxConcurrency: 5, settle: true });
       const ends = (rs) => rs.map((r) => r.status === "fulfilled" ? "ok" : r.reason.code);
       return [ends(await wave()), ends(await wave())];`,
    );
    const { result, outcome } = await shop.run("waves");
    expect(result).toEqual([Array(5).fill("ok"), Array(5).fill("token_ceiling")]);
    expect(outcome.total_tokens).toBe(500);
    expect(server.requests).toHaveLength(5);
  });

  test("of a run holds beside the Graph's own, and the lower one counts", async () => {
    shop.graph(
      "unlimited",
      "for (let n = 0; ; n++) { try { await api.agent('x'); } catch (e) { return n; } }",
    );
    expect((await shop.run("unlimited", {}, { token_ceiling: 200 })).result).toBe(2);
  });

  test("counts what an agent used that failed half way", async () => {
    server.answer = (_, i) =>
      i === 0
        ? { calls: [{ name: "list_folder", input: {} }] }
        : { status: 400, body: { error: { message: "no" } } };
    shop.graph(
      "half",
      "try { await api.agent('x', { tools: ['list_folder'] }); } catch (e) { return e.message; }",
    );
    const { outcome, events } = await shop.run("half");
    expect(outcome).toMatchObject({ status: "completed", total_tokens: 100 });
    expect(events).toContainEqual(
      expect.objectContaining({ type: "agent_finished", input_tokens: 60, output_tokens: 40 }),
    );
  });
});

describe("parallel", () => {
  test("keeps to maxConcurrency, and to the order of its tasks", async () => {
    server.answer = (request) => ({
      text: String(request.messages[0]?.content),
      afterMilliseconds: 40 - 3 * Number(request.messages[0]?.content),
    });
    shop.graph(
      "ordered",
      "return api.parallel(Array.from({ length: 12 }, (_, i) => async () => (await api.agent(String(i))).text), { maxConcurrency: 3 });",
    );
    const { result } = await shop.run("ordered");
    expect(result).toEqual(Array.from({ length: 12 }, (_, i) => String(i)));
    expect(server.mostAtOnce()).toBe(3);
  });

  test("takes four at once unless told, and never more than 32", async () => {
    shop.graph(
      "counted",
      `let now = 0, most = 0;
       const task = async () => { most = Math.max(most, ++now); await new Promise((r) => setTimeout(r, 5)); now--; };
       await api.parallel(Array.from({ length: 100 }, () => task), api.args); return most;`,
    );
    expect((await shop.run("counted")).result).toBe(4);
    expect((await shop.run("counted", { maxConcurrency: 1000 })).result).toBe(32);
    expect((await shop.run("counted", { maxConcurrency: 0 })).outcome.error).toMatch(
      /maxConcurrency must be a whole number from 1/,
    );
  });

  test("ends with the first failure and starts nothing further; or tells how each ended, as asked", async () => {
    shop.graph(
      "fails",
      `const started = [], told = [];
       const tasks = [0, 1, 2, 3, 4].map((i) => async ({ index, signal }) => {
         started.push(index); signal.addEventListener("abort", () => told.push(index));
         await new Promise((r) => setTimeout(r, index === 1 ? 5 : 30));
         if (index === 1) throw new Error("one"); return index; });
       try { return { results: await api.parallel(tasks, { maxConcurrency: 2, ...api.args }), started }; }
       catch (e) { await new Promise((r) => setTimeout(r, 100)); return { error: e.message, started, told }; }`,
    );
    expect((await shop.run("fails")).result).toEqual({ error: "one", started: [0, 1], told: [0, 1] });
    expect((await shop.run("fails", { settle: true })).result).toMatchObject({
      results: [
        { status: "fulfilled", value: 0 },
        { status: "rejected" },
        { status: "fulfilled", value: 2 },
        { status: "fulfilled", value: 3 },
        { status: "fulfilled", value: 4 },
      ],
      started: [0, 1, 2, 3, 4],
    });
  });

  test("explains what it wants instead of a promise", async () => {
    shop.graph("eager", "return api.parallel([Promise.resolve(1)]);");
    expect((await shop.run("eager")).outcome.error).toMatch(
      /task 0 is no function; write \(\) => agent\(…\)/,
    );
  });
});

describe("retry", () => {
  test("stops at the bound, however many tries are asked for", async () => {
    shop.graph(
      "retries",
      "let tries = 0; try { await api.retry(({ attempt }) => { tries = attempt; throw new Error('no ' + attempt); }, api.args); } catch (e) { return { tries, message: e.message }; }",
    );
    expect((await shop.run("retries", { backoff: 0 })).result).toEqual({ tries: 3, message: "no 3" });
    expect((await shop.run("retries", { times: 1_000_000, backoff: 0 })).result).toEqual({
      tries: 10,
      message: "no 10",
    });
    expect((await shop.run("retries", { times: 0 })).result).toMatchObject({
      tries: 0,
      message: /whole number/,
    });
  });

  test("waits between tries, twice as long each time up to a minute, with full jitter", async () => {
    const waits: number[] = [];
    const ports = { wait: async (ms: number) => void waits.push(ms), random: () => 0.5 };
    const fail = () => {
      throw new Error("no");
    };
    await expect(retry(fail, { times: 10 }, new AbortController().signal, ports)).rejects.toThrow("no");
    expect(waits).toEqual([500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000]);
  });

  test("gives up at once where another try cannot help, and when the run is stopped", async () => {
    const ports = { wait: async () => {}, random: () => 0 };
    let tries = 0;
    const refused = () => {
      tries++;
      throw Object.assign(new Error("no"), { code: "token_ceiling" });
    };
    await expect(retry(refused, {}, new AbortController().signal, ports)).rejects.toThrow("no");
    expect(tries).toBe(1);
    const stop = new AbortController();
    const failing = () => {
      tries++;
      stop.abort();
      throw new Error("stopped");
    };
    await expect(retry(failing, {}, stop.signal, ports)).rejects.toThrow("stopped");
    expect(tries).toBe(2);
  });
});

describe("graph()", () => {
  test("runs another Graph with its own arguments; its tokens, log and agents count with the caller's", async () => {
    shop.graph("child", "api.log('in the child'); await api.agent('x'); return { doubled: api.args.n * 2 };");
    shop.graph("parent", "await api.agent('y'); const a = await api.graph('child', { n: 4 }); return a;");
    const { result, outcome, events } = await shop.run("parent");
    expect(result).toEqual({ doubled: 8 });
    expect(outcome).toMatchObject({ total_tokens: 200, reported_cost: 0.02 });
    expect(events).toContainEqual({ type: "log", line: "in the child", graph: "child" });
    expect(events.flatMap((e) => (e.type === "agent_started" ? [[e.agent, e.graph]] : []))).toEqual([
      [1, undefined],
      [2, "child"],
    ]);
    expect(events.filter((e) => e.type === "fleet_started")).toHaveLength(1);
  });

  test("a sub-Graph keeps to its own ceiling, and to its caller's", async () => {
    shop.graph(
      "capped-child",
      "let n = 0; for (;;) { try { await api.agent('x'); n++; } catch { return n; } }",
    );
    shop.graph("capped", "return [await api.graph('capped-child'), await api.graph('capped-child')];");
    expect((await shop.run("capped")).result).toEqual([2, 1]);
  });

  test("refuses a cycle, whatever it is called by, and stops at its depth", async () => {
    shop.graph("a", "return api.graph('b');");
    shop.graph("b", "return api.graph('a');");
    expect((await shop.run("a")).outcome.error).toMatch(
      /^graph b: graph a: it is running above this Graph already/,
    );
    shop.graph("self", "try { await api.graph('self'); } catch (e) { return e.code; }");
    expect((await shop.run("self")).result).toBe("graph_cycle");
    for (let i = 0; i < 8; i++)
      shop.graph(
        `level-${i}`,
        `try { return 1 + await api.graph('level-${i + 1}'); } catch (e) { if (e.code !== 'limit') throw e; return 0; }`,
      );
    expect((await shop.run("level-0")).result).toBe(5);
  });

  test("what went wrong in it, or with its name, is the caller's to catch", async () => {
    shop.graph("bad", "throw new RangeError('too far');");
    shop.graph(
      "catches",
      "try { await api.graph(api.args.slug); } catch (e) { return [e.code, e.message]; }",
    );
    expect((await shop.run("catches", { slug: "bad" })).result).toEqual([
      "graph_failed",
      expect.stringMatching(/^graph bad: RangeError: too far/),
    ]);
    expect((await shop.run("catches", { slug: "__proto__" })).result).toEqual([
      "not_found",
      'There is no Graph "__proto__".',
    ]);
  });

  test("a stop reaches the sub-Graph, and nothing of it is left", async () => {
    shop.graph(
      "waits",
      "api.log('down here'); await new Promise((_, no) => { setTimeout(() => {}, 1e6); api.signal.addEventListener('abort', () => { api.log('told'); no(new Error('stopped')); }); });",
    );
    shop.graph("above", "return api.graph('waits');");
    let run_id = "";
    const { outcome, logs } = await shop.run(
      "above",
      {},
      {
        onEvent(event) {
          if (event.type === "fleet_started") ({ run_id } = event);
          if (event.type === "log" && event.line === "down here") shop.engine.fleetCancelRun(run_id);
        },
      },
    );
    expect(outcome.status).toBe("cancelled");
    expect(logs).toContain("told");
  });

  test("a Graph that calls too much at once is told so", async () => {
    shop.graph("child", "await new Promise((r) => setTimeout(r, 500)); return 1;");
    shop.graph(
      "many",
      "const ends = await api.parallel(Array.from({ length: 10 }, () => () => api.graph('child')), { maxConcurrency: 10, settle: true }); return ends.filter((e) => e.status === 'rejected').map((e) => e.reason.code);",
    );
    expect((await shop.run("many")).result).toEqual(["limit", "limit"]);
  });
});
