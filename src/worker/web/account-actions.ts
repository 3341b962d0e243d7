import { systemClock } from "../../protocol/ports.ts";
import { deliverAccount } from "../access.ts";
import { agentDisconnection, agentOfAccount, agentRevocation } from "../db/agents.ts";
import { audit } from "../db/audit.ts";
import { database } from "../db/client.ts";
import { deviceOfAccount, deviceRemoval } from "../db/devices.ts";
import { projectsOfAccount } from "../db/projects.ts";
import { displayText, text } from "./forms.ts";
import { problem } from "./layout.ts";
import type { Owner, WebContext } from "./session.ts";

// What the account page's forms do. Each looks the id up among the owner's own; another's is not there.

const done = (c: WebContext) => c.redirect("/account", 303);
export const notThere = (c: WebContext, what: string) =>
  problem(c, 404, "Not there", `${what} It may have been removed already. Reload the account page.`);

/** `POST /account/agents/revoke`. */
export async function revokeAgent(c: WebContext, owner: Owner, form: FormData) {
  const db = database(c.env.DB);
  const agent = await agentOfAccount(db, owner.account_id, text(form, "agent_id"));
  if (!agent) return notThere(c, "There is no such agent.");
  const now = systemClock.now();
  await db.batch([
    ...agentRevocation(db, agent, now),
    audit(db, owner.account_id, now, "agent_revoked", { name: agent.name }),
  ]);
  await deliverAccount(c.env, owner.account_id);
  return done(c);
}

/** `POST /account/agents/disconnect`: takes one project from an agent. */
export async function disconnectAgent(c: WebContext, owner: Owner, form: FormData) {
  const db = database(c.env.DB);
  const agent = await agentOfAccount(db, owner.account_id, text(form, "agent_id"));
  const own = await projectsOfAccount(db, owner.account_id);
  const project = own.find(({ id }) => id === text(form, "project_id"));
  if (!agent || !project) return notThere(c, "There is no such connection.");
  const detail = { name: agent.name, project: displayText(project.name) };
  await db.batch([
    ...agentDisconnection(db, agent, project.id),
    audit(db, owner.account_id, systemClock.now(), "agent_disconnected", detail),
  ]);
  await deliverAccount(c.env, owner.account_id);
  return done(c);
}

/** `POST /account/devices/remove`. */
export async function removeDevice(c: WebContext, owner: Owner, form: FormData) {
  const db = database(c.env.DB);
  const device = await deviceOfAccount(db, owner.account_id, text(form, "device_id"));
  if (!device) return notThere(c, "There is no such laptop.");
  const now = systemClock.now();
  const detail = { name: displayText(device.name), by: "owner" } as const;
  await db.batch([
    ...deviceRemoval(db, device, now),
    audit(db, owner.account_id, now, "device_removed", detail),
  ]);
  await deliverAccount(c.env, owner.account_id);
  return done(c);
}
