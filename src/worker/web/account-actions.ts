import { LIMITS } from "../../protocol/limits.ts";
import { systemClock, systemRandom } from "../../protocol/ports.ts";
import { deliverAccess, deliverAccount } from "../access.ts";
import { agentDisconnection, agentOfAccount, agentRevocation } from "../db/agents.ts";
import { audit } from "../db/audit.ts";
import { database } from "../db/client.ts";
import { deviceOfAccount, deviceRemoval } from "../db/devices.ts";
import { projectInsert, projectsOfAccount, renameProject } from "../db/projects.ts";
import { displayText, text } from "./forms.ts";
import { problem } from "./layout.ts";
import type { Owner, WebContext } from "./session.ts";

// What the account page's forms do. Each looks the id up among the owner's own; another's is not there.

const PROJECTS_MAX = 50;

const done = (c: WebContext) => c.redirect("/account", 303);
const notThere = (c: WebContext, what: string) =>
  problem(
    c,
    404,
    "Not there",
    `${what} It may have been removed already. Go back to the account page and reload it.`,
  );

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

/** `POST /account/projects`. */
export async function createProject(c: WebContext, owner: Owner, form: FormData) {
  const db = database(c.env.DB);
  const name = projectName(form);
  if (!name) return problem(c, 400, "No name", "Give the project a name.");
  if ((await projectsOfAccount(db, owner.account_id)).length >= PROJECTS_MAX)
    return problem(c, 400, "Too many projects", `An account has at most ${PROJECTS_MAX} projects.`);
  const now = systemClock.now();
  const project = projectInsert(db, { accountId: owner.account_id, name, now }, systemRandom);
  await db.batch([project.statement, audit(db, owner.account_id, now, "project_created", { name })]);
  await deliverAccess(c.env, [project.id]);
  return done(c);
}

/** `POST /account/projects/rename`. */
export async function rename(c: WebContext, owner: Owner, form: FormData) {
  const name = projectName(form);
  if (!name) return problem(c, 400, "No name", "Give the project a name.");
  const db = database(c.env.DB);
  if (!(await renameProject(db, owner.account_id, text(form, "project_id"), name)))
    return notThere(c, "There is no such project.");
  await db.batch([audit(db, owner.account_id, systemClock.now(), "project_renamed", { name })]);
  return done(c);
}

const projectName = (form: FormData): string => displayText(text(form, "name"), LIMITS.nameCharacters);
