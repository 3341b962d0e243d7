import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { EXIT_CODES } from "../../relay-cli/exit-codes.ts";
import { sharedSet } from "../../relay-cli/relay/sessions.ts";
import type { Graph } from "../../relay-cli/store/contract.ts";
import { LIMITS } from "../../src/protocol/limits.ts";
import { Cli } from "./support/cli.ts";
import { PROJECT } from "./support/server.ts";
import { GRAPH } from "./support/world.ts";

vi.setConfig({ testTimeout: 90_000 });

const graphs = (count: number, change: Partial<Graph> = {}): Graph[] =>
  Array.from({ length: count }, (_, n) => ({
    ...GRAPH,
    slug: `graph-${n}`,
    graph_session_id: `gs_${n.toString(16).padStart(32, "0")}`,
    path: `/graphs/graph-${n}.mjs`,
    ...change,
  }));
/** The largest schema there may be, in a script that takes three bytes a character. */
const LARGE_SCHEMA = JSON.stringify({ title: "\ud55c".repeat(LIMITS.argumentsSchemaCharacters - 12) });

describe("the set that a project is told of", () => {
  test("holds 100 Graphs, whatever their schemas hold in ASCII, and fits a request", () => {
    const ascii = JSON.stringify({ title: "x".repeat(LIMITS.argumentsSchemaCharacters - 12) });
    const { sessions, leftOut } = sharedSet(
      graphs(101, { arguments_schema: ascii, description: "d".repeat(LIMITS.descriptionCharacters) }),
      () => true,
    );
    expect([sessions.length, leftOut.length]).toEqual([100, 1]);
    expect(Buffer.byteLength(JSON.stringify({ sessions }))).toBeLessThan(LIMITS.relayBodyBytes - 1_000);
  });

  test("leaves out what a request does not hold, the same Graphs each time", () => {
    const all = graphs(100, { arguments_schema: LARGE_SCHEMA });
    const { sessions, leftOut, digest } = sharedSet(all, () => true);
    expect(sessions.length).toBe(43);
    expect(leftOut.map((graph) => graph.slug)).toEqual(all.slice(43).map((graph) => graph.slug));
    expect(Buffer.byteLength(JSON.stringify({ sessions }))).toBeLessThan(LIMITS.relayBodyBytes - 1_000);
    expect(sharedSet(all, () => true).digest).toBe(digest);
  });
});

describe("share", () => {
  let cli: Cli;
  beforeEach(async () => {
    cli = new Cli();
    await cli.pair("http://127.0.0.1:9");
  });
  afterEach(() => cli.remove());

  test.each([
    ["more than 100 Graphs", graphs(101), 100],
    ["more than a request holds", graphs(44, { arguments_schema: LARGE_SCHEMA }), 43],
  ])("refuses %s, and takes one of them again", async (_, all, shared) => {
    cli.store((store) => {
      for (const graph of all) store.graphs.add(graph);
      for (const graph of all.slice(0, shared)) store.projects.share(PROJECT, graph.graph_session_id, 0);
    });
    const more = await cli.run(["share", `graph-${shared}`]);
    expect([more.code, more.stderr]).toEqual([EXIT_CODES.usage[0], expect.stringContaining("at most 100")]);
    const again = await cli.run(["share", "graph-0"]);
    expect([again.code, again.stderr]).toEqual([0, expect.stringContaining("was already shared")]);
  });

  test("of a Graph added again keeps its slug, so that its queued runs go on", async () => {
    const file = join(cli.folder, "report.mjs");
    writeFileSync(file, "export default () => 1;");
    expect((await cli.run(["graph", "add", file, "--slug", "weekly"])).code).toBe(0);
    const before = cli.store((store) => store.graphs.find("weekly"));
    expect((await cli.run(["graph", "add", file])).stderr).toContain("Updated weekly");
    expect(cli.store((store) => store.graphs.find("weekly"))).toEqual(before);
  });
});
