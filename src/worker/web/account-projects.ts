import { html } from "hono/html";
import { LIMITS } from "../../protocol/limits.ts";
import { systemClock, systemRandom } from "../../protocol/ports.ts";
import { deliverAccess } from "../access.ts";
import { audit } from "../db/audit.ts";
import { database } from "../db/client.ts";
import { projectEnd } from "../db/project-deletion.ts";
import {
  projectInsert,
  projectOfAccount,
  projectsOfAccount,
  renameProject as rename,
  settingsChange,
} from "../db/projects.ts";
import { finishProjectDeletion } from "../project-deletion.ts";
import { notThere } from "./account-actions.ts";
import { signInAgain } from "./answers.ts";
import { csrfField, displayText, text } from "./forms.ts";
import { page, problem } from "./layout.ts";
import { readSettings, settingsFields } from "./project-settings.ts";
import { isFresh, type Owner, type WebContext } from "./session.ts";

const PROJECTS_MAX = 50;

const pageOf = (projectId: string): string => `/account/projects/${projectId}`;
/** The same after a change was saved. */
const savedPageOf = (projectId: string): string => `${pageOf(projectId)}?saved`;
const noProject = (c: WebContext) => notThere(c, "There is no such project.");
const projectName = (form: FormData): string => displayText(text(form, "name"), LIMITS.nameCharacters);

/** `GET /account/projects/:project_id`: one project's name, settings and end. */
export async function projectPage(c: WebContext, owner: Owner) {
  const projectId = c.req.param("project_id") ?? "";
  const project = await projectOfAccount(database(c.env.DB), owner.account_id, projectId);
  if (!project) return noProject(c);
  const name = displayText(project.name);
  const idField = html`${csrfField(c)}<input type="hidden" name="project_id" value="${project.id}">`;
  return page(c, {
    title: name,
    body: html`
${c.req.query("saved") === undefined ? "" : html`<p class="tip" role="status">Saved.</p>`}
<p class="meta">Project <span class="code">${project.id}</span></p>
<section class="panel" aria-labelledby="name-title"><h2 id="name-title">Name</h2>
<form method="post" action="/account/projects/rename">${idField}
<label for="name">Name of the project</label>
<input type="text" id="name" name="name" value="${project.name}" required maxlength="${LIMITS.nameCharacters}">
<div class="actions"><button>Rename</button></div></form></section>
<section class="panel" aria-labelledby="settings"><h2 id="settings">Settings</h2>
<form method="post" action="/account/projects/settings" autocomplete="off">${idField}
${settingsFields(project.settings)}
<div class="actions"><button class="primary">Save settings</button></div></form></section>
<section class="panel" aria-labelledby="delete"><h2 id="delete">Delete the project</h2>
<p>Agents lose it at once, queued runs are dropped, running ones are stopped, and every run and result that is kept here is deleted for good. Graphs and history on your laptops stay.</p>
${isFresh(owner) ? "" : html`<p class="tip">This needs a sign-in of the last ten minutes. <a href="/sign-in?return_to=${pageOf(project.id)}">Sign in again</a></p>`}
<form method="post" action="/account/projects/delete" autocomplete="off">${idField}
<label for="confirm">Type the project’s name, ${name}, to confirm</label>
<input type="text" id="confirm" name="confirm" required>
<div class="actions"><button class="danger">Delete the project</button></div></form></section>`,
  });
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
  return c.redirect("/account#projects", 303);
}

/** `POST /account/projects/rename`. */
export async function renameProject(c: WebContext, owner: Owner, form: FormData) {
  const name = projectName(form);
  if (!name) return problem(c, 400, "No name", "Give the project a name.");
  const db = database(c.env.DB);
  const projectId = text(form, "project_id");
  if (!(await rename(db, owner.account_id, projectId, name))) return noProject(c);
  await db.batch([audit(db, owner.account_id, systemClock.now(), "project_renamed", { name })]);
  return c.redirect(savedPageOf(projectId), 303);
}

/** `POST /account/projects/settings`: takes effect in the project's object before the page is back. */
export async function saveSettings(c: WebContext, owner: Owner, form: FormData) {
  const db = database(c.env.DB);
  const project = await projectOfAccount(db, owner.account_id, text(form, "project_id"));
  if (!project) return noProject(c);
  const settings = readSettings(form);
  if ("wrong" in settings)
    return problem(c, 400, "Not saved", settings.wrong, { href: pageOf(project.id), text: "Go back" });
  await db.batch([
    settingsChange(db, owner.account_id, project.id, settings),
    audit(db, owner.account_id, systemClock.now(), "project_settings_changed", {
      name: displayText(project.name),
    }),
  ]);
  await deliverAccess(c.env, [project.id]);
  return c.redirect(savedPageOf(project.id), 303);
}

/** `POST /account/projects/delete`. */
export async function deleteProject(c: WebContext, owner: Owner, form: FormData) {
  const db = database(c.env.DB);
  const project = await projectOfAccount(db, owner.account_id, text(form, "project_id"));
  if (!project) return noProject(c);
  if (!isFresh(owner)) return signInAgain(c, pageOf(project.id));
  const name = displayText(project.name);
  // As it is shown: that is what the person can type.
  if (displayText(text(form, "confirm")) !== name)
    return problem(
      c,
      400,
      "Not deleted",
      "The name you typed is not the project’s. Go back and type it again.",
      { href: pageOf(project.id), text: "Go back" },
    );
  const now = systemClock.now();
  await db.batch([
    audit(db, owner.account_id, now, "project_deleted", { name }),
    ...projectEnd(db, project.id, now),
  ]);
  await finishProjectDeletion(c.env, { id: project.id, account_id: owner.account_id }, db);
  return c.redirect("/account#projects", 303);
}
