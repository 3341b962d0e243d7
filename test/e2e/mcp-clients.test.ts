import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { SessionMetadata } from "../../src/protocol/relay-api.ts";
import { startTestEndpoint, type TestEndpoint } from "../support/endpoint.ts";
import { type Agent, type Door, OFFICIAL_CLIENTS } from "../support/official-clients.ts";
import { ScriptedDevice } from "../support/scripted-device.ts";

const SESSION: SessionMetadata = {
  graph_session_id: "gs_00000000000000000000000000000001",
  name: "Report",
  description: "Counts files",
  slug: "report",
  version: "1",
  status: "ready",
};

let endpoint: TestEndpoint;
let device: ScriptedDevice;
beforeAll(async () => {
  endpoint = await startTestEndpoint();
  device = await ScriptedDevice.pair(endpoint);
  await device.sync([SESSION]);
});
afterAll(() => endpoint.stop());

const door: () => Door = () => ({
  url: endpoint.url,
  redirectUrl: "http://127.0.0.1:33418/callback",
  consent: async (page) => new URL(await endpoint.owner.approve(page.href)),
});

describe.each(OFFICIAL_CLIENTS)("%s", (_, connect) => {
  let agent: Agent;
  beforeAll(async () => {
    agent = await connect(door());
  });
  afterAll(() => agent.close());

  const run = async () => {
    const ticket = await agent.call("run_graph_session", {
      graph_session_id: SESSION.graph_session_id,
      arguments: { folder: "." },
      idempotency_key: randomUUID(),
    });
    return String(ticket.structuredContent?.command_id);
  };

  it("lists the four tools, and the shared session", async () => {
    expect(await agent.tools()).toEqual([
      "list_graph_sessions",
      "run_graph_session",
      "get_graph_run",
      "cancel_graph_run",
    ]);
    const listed = await agent.call("list_graph_sessions", {});
    expect(listed.structuredContent?.sessions).toMatchObject([{ name: "Report", desktop: { online: true } }]);
    expect(listed.content[0]?.text).toContain(SESSION.graph_session_id);
  });

  it("runs the session and waits for its result", async () => {
    const command_id = await run();
    const waiting = agent.call("get_graph_run", { command_id, wait_seconds: 30 });
    const { commands } = await device.sync([SESSION]);
    expect(commands.map((c) => [c.command_id, c.arguments])).toContainEqual([command_id, { folder: "." }]);
    await device.finish(command_id, { files: 3 });
    const answer = await waiting;
    expect(answer.structuredContent).toMatchObject({ status: "completed", result: { files: 3 } });
    expect(answer.content[0]?.text).toContain('{"files":3}');
  });

  it("cancels a queued run, which then never reaches the laptop", async () => {
    const command_id = await run();
    const answer = await agent.call("cancel_graph_run", { command_id });
    expect(answer.structuredContent).toMatchObject({ cancel: "cancelled", status: "cancelled" });
    const { commands } = await device.sync([SESSION]);
    expect(commands).toEqual([]);
  });

  it("hears what was wrong, in an answer that its own checks accept", async () => {
    const answer = await agent.call("get_graph_run", { command_id: randomUUID() });
    expect(answer.isError).toBe(true);
    expect(answer.content[0]?.text).toBe("Graph run not found or access removed");
  });
});
