import type { OAuthHelpers } from "@cloudflare/workers-oauth-provider";
import { newId } from "../../protocol/ids.ts";
import { systemClock, systemRandom } from "../../protocol/ports.ts";
import { LOGIN_CLIENT } from "../../protocol/relay-api.ts";
import type { Scope } from "../../protocol/tools.ts";
import { deliverAccess } from "../access.ts";
import { connectAgent } from "../db/agents.ts";
import { audit } from "../db/audit.ts";
import { database } from "../db/client.ts";
import { projectsOfAccount } from "../db/projects.ts";
import type { Env } from "../env.ts";
import { displayText } from "../web/forms.ts";
import type { Authorization } from "./authorization-request.ts";
import { grantRevocation } from "./refresh.ts";
import { grantedScopes } from "./scopes.ts";
import type { AgentProps } from "./server.ts";

/** What the owner left ticked. */
export interface Choice {
  accountId: string;
  projectIds: string[];
  scopes: Scope[];
}

/** Where a client's answer goes, for people: the host. */
export const redirectHost = (redirectUri: string): string => new URL(redirectUri).hostname;

/** Gives an agent what the owner chose and answers where to send the browser. The projects' objects know before the client does. */
export async function allowAgent(
  env: Env,
  helpers: OAuthHelpers,
  { request, clientName, offline }: Authorization,
  choice: Choice,
): Promise<string> {
  const db = database(env.DB);
  const granted = grantedScopes(choice.scopes, offline);
  const agentId = await connectAgent(db, {
    accountId: choice.accountId,
    clientId: request.clientId,
    newAgentId: newId("agt", systemRandom),
    name: displayText(clientName),
    scopes: choice.scopes.join(" "),
    redirectHost: redirectHost(request.redirectUri),
    projectIds: choice.projectIds,
    now: systemClock.now(),
  });
  await endBroaderGrants(env.DB, choice.accountId, request.clientId, granted);
  const all = await projectsOfAccount(db, choice.accountId);
  await deliverAccess(
    env,
    all.map((project) => project.id),
  );
  const props: AgentProps = { agent_id: agentId, account_id: choice.accountId, projects: choice.projectIds };
  const { redirectTo } = await helpers.completeAuthorization({
    request,
    userId: choice.accountId,
    metadata: {},
    scope: granted,
    props,
    // Another installation of the same client stays signed in.
    revokeExistingGrants: false,
  });
  return redirectTo;
}

/** Writes down that the owner said no. */
export async function noteRefusal(
  env: Env,
  { request, clientName, isDeviceLogin }: Authorization,
  accountId: string,
  deviceName: string,
): Promise<void> {
  const db = database(env.DB);
  const now = systemClock.now();
  const entry = isDeviceLogin
    ? audit(db, accountId, now, "device_refused", { name: deviceName })
    : audit(db, accountId, now, "agent_refused", {
        name: displayText(clientName),
        host: redirectHost(request.redirectUri),
      });
  await db.batch([entry]);
}

/** Lets a laptop register itself once. The key that the owner saw is the only one the token registers. */
export async function allowDevice(
  env: Env,
  helpers: OAuthHelpers,
  { request }: Authorization,
  accountId: string,
  device: { name: string; thumbprint: string },
): Promise<string> {
  const db = database(env.DB);
  await db.batch([audit(db, accountId, systemClock.now(), "device_allowed", device)]);
  const { redirectTo } = await helpers.completeAuthorization({
    request,
    userId: accountId,
    metadata: {},
    scope: [LOGIN_CLIENT.scope],
    props: { account_id: accountId, thumbprint: device.thumbprint },
    revokeExistingGrants: false,
  });
  return redirectTo;
}

/** The newest consent holds for the client: an earlier grant with more scopes ends. */
async function endBroaderGrants(
  d1: D1Database,
  accountId: string,
  clientId: string,
  granted: string[],
): Promise<void> {
  const { results } = await d1
    .prepare(
      `SELECT key, json_extract(value, '$.scope') AS scope FROM oauth_store
       WHERE key > ?1 AND key < ?2 AND json_extract(value, '$.clientId') = ?3`,
    )
    .bind(`grant:${accountId}:`, `grant:${accountId};`, clientId)
    .all<{ key: string; scope: string }>();
  const broader = results.filter(({ scope }) =>
    (JSON.parse(scope) as string[]).some((name) => name !== "offline_access" && !granted.includes(name)),
  );
  const statements = broader.flatMap(({ key }) => grantRevocation(d1, accountId, key.split(":")[2] ?? ""));
  if (statements.length > 0) await d1.batch(statements);
}
