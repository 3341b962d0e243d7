import { env } from "cloudflare:workers";
import { afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { RELAY_PATH } from "../../src/protocol/relay-api.ts";
import { REVISIONS, type RpcAnswer, rpcRequest } from "./support/endpoint.ts";
import {
  assertion,
  callWorker,
  connectAgent,
  deviceTokenRequest,
  newOwner,
  ORIGIN,
  pairDevice,
  type TestAgent,
  type TestOwner,
} from "./support/people.ts";

// The endpoint as it is deployed, with real tokens: what it takes and what it turns away.

let owner: TestOwner;
let agent: TestAgent;
beforeAll(async () => {
  owner = await newOwner();
  agent = await connectAgent(owner);
});
afterEach(() => {
  vi.useRealTimers();
});

const LIST = { name: "list_graph_sessions", arguments: {} };

/** A tool call in each revision's form, with this token, at this origin. */
async function call(token: string, params: Record<string, unknown> = LIST, origin = ORIGIN) {
  const statuses = new Set<number>();
  let challenge = "";
  let answer: RpcAnswer | undefined;
  for (const revision of REVISIONS) {
    const headers = { authorization: `Bearer ${token}` };
    const sent = rpcRequest(revision, "tools/call", params, { headers });
    const response = await callWorker(new Request(`${origin}/mcp`, sent));
    statuses.add(response.status);
    challenge = response.headers.get("www-authenticate") ?? "";
    answer = await response.json<RpcAnswer>();
  }
  return { statuses: [...statuses], challenge, answer };
}

it("a fresh token gets in, in every revision", async () => {
  const { statuses, answer } = await call(agent.access_token);
  expect(statuses).toEqual([200]);
  expect(answer?.result?.structuredContent).toMatchObject({ projects: [{ project_id: owner.project_id }] });
});

describe("turned away with 401 and a challenge that starts a new sign-in", () => {
  it.each<[string, () => string | Promise<string>]>([
    ["no token of ours", () => "abc"],
    ["a token cut short", () => agent.access_token.slice(0, -1)],
    ["a token with another secret", () => `${agent.access_token.slice(0, -4)}AAAA`],
    ["a refresh token", () => agent.refresh_token],
    [
      "a device's token: another audience",
      async () => {
        const response = await deviceTokenRequest(await assertion(await pairDevice(owner)));
        return (await response.json<{ access_token: string }>()).access_token;
      },
    ],
  ])("%s", async (_, token) => {
    const { statuses, challenge, answer } = await call(await token());
    expect(statuses).toEqual([401]);
    expect(challenge).toContain('error="invalid_token"');
    expect(challenge).toContain(`resource_metadata="${ORIGIN}/.well-known/oauth-protected-resource/mcp"`);
    expect(answer?.result?.isError).toBe(true);
  });

  it("a token that has expired", async () => {
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 2 * 60 * 60 * 1000 });
    expect((await call(agent.access_token)).statuses).toEqual([401]);
  });

  it("a token for another host of ours: another audience", async () => {
    expect((await call(agent.access_token, LIST, "https://other.example.com")).statuses).toEqual([401]);
  });

  it("a token of an agent that the owner has revoked, at once", async () => {
    const revoked = await connectAgent(owner);
    expect((await call(revoked.access_token)).statuses).toEqual([200]);
    await owner.browser.submit("/account/agents/revoke", { agent_id: revoked.agent_id });
    expect((await call(revoked.access_token)).statuses).toEqual([401]);
  });
});

describe("turned away with 403, naming the scope", () => {
  it("run with a grant for reading alone", async () => {
    const reader = await connectAgent(owner, { scopes: ["osfoundry:read"] });
    expect((await call(reader.access_token)).statuses).toEqual([200]);
    const { statuses, challenge } = await call(reader.access_token, {
      name: "run_graph_session",
      arguments: {},
    });
    expect(statuses).toEqual([403]);
    expect(challenge).toContain('error="insufficient_scope"');
    expect(challenge).toContain('scope="osfoundry:read osfoundry:run"');
    expect(challenge).not.toContain("offline_access");
  });

  it("one challenge is enough to step up: the scope it names serves every tool, and the older token stays good", async () => {
    const reader = await connectAgent(owner, { scope: "osfoundry:read" });
    const RUN = { name: "run_graph_session", arguments: {} };
    const { challenge } = await call(reader.access_token, RUN);
    const [, scope = ""] = /scope="([^"]+)"/.exec(challenge) ?? [];
    const wider = await connectAgent(owner, { clientId: reader.client_id, scope });
    for (const params of [LIST, RUN, { name: "cancel_graph_run", arguments: {} }])
      expect((await call(wider.access_token, params)).statuses).toEqual([200]);
    expect((await call(reader.access_token)).statuses).toEqual([200]);
    expect((await call(reader.access_token, RUN)).statuses).toEqual([403]);
  });

  it("a grant for running alone includes reading", async () => {
    const runner = await connectAgent(owner, { scopes: ["osfoundry:run"] });
    expect((await call(runner.access_token)).statuses).toEqual([200]);
  });
});

it("an agent's token is no device's: the relay API answers 401 with the server's time", async () => {
  const response = await callWorker(`${ORIGIN}${RELAY_PATH}/sync`, {
    method: "POST",
    headers: { authorization: `Bearer ${agent.access_token}`, "content-type": "application/json" },
    body: "{}",
  });
  expect(response.status).toBe(401);
  expect(await response.json()).toMatchObject({ error: "token_invalid", server_time: expect.any(Number) });
});

it("what a stranger sends touches no object and reads no more than a token's row", async () => {
  const opened = vi.spyOn(env.PROJECT_QUEUE, "getByName");
  const prepared = vi.spyOn(env.DB, "prepare");
  await call("a:b:c", {
    name: "get_graph_run",
    arguments: { command_id: "00000000-0000-8000-8000-000000000000" },
  });
  expect(opened).not.toHaveBeenCalled();
  expect(prepared.mock.calls.length).toBeLessThanOrEqual(REVISIONS.length);
  opened.mockRestore();
  prepared.mockRestore();
});
