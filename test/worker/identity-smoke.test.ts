import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { authenticateAgent } from "../../src/worker/oauth/agent-token.ts";
import { authenticateDevice } from "../../src/worker/relay-api/device-token.ts";
import { connectAgent, newOwner, ORIGIN, pairDevice } from "./support/people.ts";

const withToken = (token: string) =>
  new Request(`${ORIGIN}/mcp`, { headers: { authorization: `Bearer ${token}` } });

it("connects an agent and a laptop from nothing", async () => {
  const owner = await newOwner();
  const agent = await connectAgent(owner);
  expect(await authenticateAgent(withToken(agent.access_token), env)).toEqual({
    agent_id: agent.agent_id,
    account_id: owner.account_id,
    client_id: agent.client_id,
    scopes: ["osfoundry:read", "osfoundry:run"],
    projects: [owner.project_id],
  });
  const device = await pairDevice(owner);
  expect(await authenticateDevice(withToken(device.token), env)).toMatchObject({
    device_id: device.device_id,
    account_id: owner.account_id,
    projects: [owner.project_id],
  });
});
