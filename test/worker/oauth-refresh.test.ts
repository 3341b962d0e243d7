import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { authenticateAgent } from "../../src/worker/oauth/agent-token.ts";
import { GRACE_MS, type RefreshPorts, refreshOnce } from "../../src/worker/oauth/refresh.ts";
import { everyMinute } from "../../src/worker/scheduled.ts";
import {
  connectAgent,
  newOwner,
  newProject,
  ORIGIN,
  registerClient,
  type TestAgent,
  tokenRequest,
} from "./support/people.ts";

interface Tokens {
  access_token: string;
  refresh_token: string;
  scope: string;
}
const refresh = (agent: { client_id: string }, token: string, more: Record<string, string> = {}) =>
  tokenRequest({ grant_type: "refresh_token", refresh_token: token, client_id: agent.client_id, ...more });
const refreshed = async (agent: { client_id: string }, token: string) => {
  const response = await refresh(agent, token);
  expect(response.status).toBe(200);
  return response.json<Tokens>();
};
const works = async (token: string) =>
  !(
    "error" in
    (await authenticateAgent(
      new Request(`${ORIGIN}/mcp`, { headers: { authorization: `Bearer ${token}` } }),
      env,
    ))
  );
const moveClock = (ms: number) => vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + ms });
const agentOf = async (options = {}): Promise<TestAgent> => connectAgent(await newOwner(), options);

afterEach(() => {
  vi.useRealTimers();
});

describe("refreshing", () => {
  it("eight times at once with one token succeeds eight times, and all that was handed out works, access and refresh", async () => {
    const agent = await agentOf();
    let current = agent.refresh_token;
    for (let generation = 0; generation < 3; generation++) {
      const answers = await Promise.all(Array.from({ length: 8 }, () => refresh(agent, current)));
      expect(answers.map((answer) => answer.status)).toEqual(Array(8).fill(200));
      const tokens = await Promise.all(answers.map((answer) => answer.json<Tokens>()));
      for (const { access_token } of tokens) expect(await works(access_token)).toBe(true);
      const again = await Promise.all(tokens.map(({ refresh_token }) => refresh(agent, refresh_token)));
      expect(again.map((answer) => answer.status)).toEqual(Array(8).fill(200));
      const [next] = await Promise.all(again.map((answer) => answer.json<Tokens>()));
      current = next?.refresh_token ?? "";
    }
    expect(await works(agent.access_token)).toBe(true);
  });

  it("again within the grace gives the same answer, uncached", async () => {
    const agent = await agentOf();
    const first = await refreshed(agent, agent.refresh_token);
    moveClock(GRACE_MS - 1_000);
    const response = await refresh(agent, agent.refresh_token);
    expect(response.headers.get("cache-control")).toBe("no-store");
    expect(await response.json()).toEqual(first);
    expect(first.refresh_token).not.toBe(agent.refresh_token);
  });

  it("with a used token after the grace ends the grant: nothing it ever gave works", async () => {
    const agent = await agentOf();
    const first = await refreshed(agent, agent.refresh_token);
    moveClock(GRACE_MS + 1_000);
    const stolen = await refresh(agent, agent.refresh_token);
    expect(stolen.status).toBe(400);
    expect(await stolen.json()).toMatchObject({ error: "invalid_grant" });
    expect(await works(first.access_token)).toBe(false);
    expect(await works(agent.access_token)).toBe(false);
    expect((await refresh(agent, first.refresh_token)).status).toBe(400);
  });

  it("with a token of two generations ago after the grace ends the grant too, and after a sweep as well", async () => {
    const agent = await agentOf();
    const first = await refreshed(agent, agent.refresh_token);
    const second = await refreshed(agent, first.refresh_token);
    moveClock(GRACE_MS + 1_000);
    await everyMinute(env);
    expect((await refresh(agent, agent.refresh_token)).status).toBe(400);
    expect(await works(second.access_token)).toBe(false);
  });

  it("goes on for a token that was not used, however long the grace is over", async () => {
    const agent = await agentOf();
    const first = await refreshed(agent, agent.refresh_token);
    moveClock(29 * 24 * 3600 * 1000);
    await everyMinute(env);
    const second = await refreshed(agent, first.refresh_token);
    expect(await works(second.access_token)).toBe(true);
    moveClock(31 * 24 * 3600 * 1000);
    expect((await refresh(agent, second.refresh_token)).status).toBe(400);
  });

  it("is refused to another client, and costs the right one nothing", async () => {
    const agent = await agentOf();
    const other = {
      client_id: await registerClient("http://127.0.0.1/callback", `Other ${crypto.randomUUID()}`),
    };
    expect(await (await refresh(other, agent.refresh_token)).json()).toMatchObject({
      error: "invalid_grant",
    });
    const first = await refreshed(agent, agent.refresh_token);
    expect(await (await refresh(other, agent.refresh_token)).json()).toMatchObject({
      error: "invalid_grant",
    });
    moveClock(GRACE_MS + 1_000);
    expect((await refresh(other, agent.refresh_token)).status).toBe(400);
    expect(await works(first.access_token)).toBe(true);
    expect((await refresh({ client_id: "nobody" }, first.refresh_token)).status).toBe(401);
  });

  it("with a token that never was writes nothing", async () => {
    const agent = await agentOf();
    const [account, grant] = agent.refresh_token.split(":");
    for (const token of ["x", "a:b:c", `${account}:${grant}:${"A".repeat(32)}`]) {
      expect(await (await refresh(agent, token)).json()).toMatchObject({ error: "invalid_grant" });
    }
    const rows = await env.DB.prepare("SELECT count(*) AS n FROM refresh_answers WHERE client_id = ?")
      .bind(agent.client_id)
      .first("n");
    expect(rows).toBe(0);
    expect(await works(agent.access_token)).toBe(true);
  });

  it("cannot change the resource or widen the scope", async () => {
    const agent = await agentOf({ scope: "osfoundry:read" });
    expect(
      await (await refresh(agent, agent.refresh_token, { resource: "https://other.example/mcp" })).json(),
    ).toMatchObject({ error: "invalid_target" });
    expect(
      await (
        await refresh(agent, agent.refresh_token, { resource: `${ORIGIN}/external-assistants/graph-relays` })
      ).json(),
    ).toMatchObject({ error: "invalid_target" });
    expect(
      await (await refresh(agent, agent.refresh_token, { scope: "osfoundry:run" })).json(),
    ).toMatchObject({ error: "invalid_scope" });
    const { scope } = await refreshed(agent, agent.refresh_token);
    expect(scope).toBe("osfoundry:read");
  });

  it("brings the agent's projects up to date", async () => {
    const owner = await newOwner();
    const agent = await connectAgent(owner);
    const added = await newProject(owner, "Later");
    await connectAgent(owner, { clientId: agent.client_id });
    const { access_token } = await refreshed(agent, agent.refresh_token);
    const auth = await authenticateAgent(
      new Request(`${ORIGIN}/mcp`, { headers: { authorization: `Bearer ${access_token}` } }),
      env,
    );
    expect(auth).toMatchObject({ projects: [owner.project_id, added] });
  });

  it("is over, within the grace too, once the owner has revoked the agent", async () => {
    const owner = await newOwner();
    const agent = await connectAgent(owner);
    const first = await refreshed(agent, agent.refresh_token);
    await owner.browser.submit("/account/agents/revoke", { agent_id: agent.agent_id });
    expect((await refresh(agent, agent.refresh_token)).status).toBe(400);
    expect((await refresh(agent, first.refresh_token)).status).toBe(400);
    expect(await works(first.access_token)).toBe(false);
  });

  it("leaves no token at rest", async () => {
    const agent = await agentOf();
    const first = await refreshed(agent, agent.refresh_token);
    const { results } = await env.DB.prepare(
      "SELECT value AS text FROM oauth_store UNION ALL SELECT sealed_answer FROM refresh_answers",
    ).all<{ text: string | null }>();
    const stored = results.map(({ text }) => text).join("\n");
    for (const token of [agent.access_token, agent.refresh_token, first.access_token, first.refresh_token])
      expect(stored).not.toContain(token.split(":")[2]);
  });
});

describe("a refresh that dies half way", () => {
  const ports = (over: Partial<RefreshPorts> = {}): RefreshPorts => ({
    d1: env.DB,
    clock: { now: () => Date.now() },
    refresh: () => {
      throw new Error("the test's refresh was not to be called");
    },
    sleep: async () => undefined,
    ...over,
  });

  it("is done anew by the next who asks, whether the grant had been written or not", async () => {
    const agent = await agentOf();
    const crash = () => Promise.reject(new Error("crash"));
    await expect(
      refreshOnce(agent.refresh_token, agent.client_id, ports({ refresh: crash })),
    ).rejects.toThrow("crash");
    const first = await refreshed(agent, agent.refresh_token);
    // The library did its part, and the answer was lost before it was kept.
    await env.DB.prepare("DELETE FROM refresh_answers WHERE client_id = ?").bind(agent.client_id).run();
    const second = await refreshed(agent, agent.refresh_token);
    expect(second.refresh_token).not.toBe(first.refresh_token);
    expect(await works(second.access_token)).toBe(true);
    await refreshed(agent, second.refresh_token);
  });

  it("blocks nobody for longer than it takes to see that it is dead", async () => {
    const agent = await agentOf();
    let waited = 0;
    const never = new Promise<Response>(() => undefined);
    void refreshOnce(agent.refresh_token, agent.client_id, ports({ refresh: () => never }));
    // Others wait for it, then say when to come back.
    await vi.waitFor(async () =>
      expect(
        await env.DB.prepare("SELECT count(*) AS n FROM refresh_answers WHERE client_id = ?")
          .bind(agent.client_id)
          .first("n"),
      ).toBe(1),
    );
    const response = await refreshOnce(
      agent.refresh_token,
      agent.client_id,
      ports({
        sleep: async (ms) => {
          waited += ms;
        },
      }),
    );
    expect(response.status).toBe(503);
    expect(response.headers.get("retry-after")).toBe("5");
    expect(waited).toBeLessThanOrEqual(10_000);
    moveClock(16_000);
    expect(await works((await refreshed(agent, agent.refresh_token)).access_token)).toBe(true);
  });
});
