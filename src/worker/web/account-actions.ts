import { LIMITS } from "../../protocol/limits.ts";
import { systemClock, systemRandom } from "../../protocol/ports.ts";
import { deliverAccess } from "../access.ts";
import { agentOfAccount, agentRevocation } from "../db/agents.ts";
import { type Database, database } from "../db/client.ts";
import { deviceOfAccount, deviceRemoval } from "../db/devices.ts";
import { projectInsert, projectsOfAccount, renameProject } from "../db/projects.ts";
import type { Env } from "../env.ts";
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

/** Tells the objects of all of an account's projects who may use them now. */
export async function deliverAccount(env: Env, db: Database, accountId: string): Promise<void> {
  const projects = await projectsOfAccount(db, accountId);
  await deliverAccess(
    env,
    projects.map((project) => project.id),
  );
}

export async function revokeAgent(c: WebContext, owner: Owner, form: FormData) {
  const db = database(c.env.DB);
  const agent = await agentOfAccount(db, owner.account_id, text(form, "agent_id"));
  if (!agent) return notThere(c, "There is no such agent.");
  await db.batch(agentRevocation(db, agent, systemClock.now()));
  await deliverAccount(c.env, db, owner.account_id);
  return done(c);
}

export async function removeDevice(c: WebContext, owner: Owner, form: FormData) {
  const db = database(c.env.DB);
  const device = await deviceOfAccount(db, owner.account_id, text(form, "device_id"));
  if (!device) return notThere(c, "There is no such laptop.");
  await db.batch(deviceRemoval(db, device, systemClock.now()));
  await deliverAccount(c.env, db, owner.account_id);
  return done(c);
}

export async function createProject(c: WebContext, owner: Owner, form: FormData) {
  const db = database(c.env.DB);
  const name = projectName(form);
  if (!name) return problem(c, 400, "No name", "Give the project a name.");
  if ((await projectsOfAccount(db, owner.account_id)).length >= PROJECTS_MAX)
    return problem(c, 400, "Too many projects", `An account has at most ${PROJECTS_MAX} projects.`);
  const project = projectInsert(
    db,
    { accountId: owner.account_id, name, now: systemClock.now() },
    systemRandom,
  );
  await db.batch([project.statement]);
  await deliverAccess(c.env, [project.id]);
  return done(c);
}

export async function rename(c: WebContext, owner: Owner, form: FormData) {
  const name = projectName(form);
  if (!name) return problem(c, 400, "No name", "Give the project a name.");
  const renamed = await renameProject(database(c.env.DB), owner.account_id, text(form, "project_id"), name);
  return renamed ? done(c) : notThere(c, "There is no such project.");
}

const projectName = (form: FormData): string => displayText(text(form, "name"), LIMITS.nameCharacters);
