import type { ProjectsResponse } from "../../protocol/relay-api.ts";
import { database } from "../db/client.ts";
import { deviceOfAccount } from "../db/devices.ts";
import { projectsOfAccount } from "../db/projects.ts";
import type { Env } from "../env.ts";
import { noStore } from "../oauth/http.ts";
import { authenticateDevice } from "./device-token.ts";
import { relayError } from "./problem.ts";

/** `GET /projects`: the projects of the laptop's account, oldest first. */
export async function listProjects(request: Request, env: Env): Promise<Response> {
  const auth = await authenticateDevice(request, env);
  if ("error" in auth) return relayError("token_invalid", { detail: auth.description });
  const db = database(env.DB);
  if (!(await deviceOfAccount(db, auth.account_id, auth.device_id))) return relayError("device_removed");
  const projects = await projectsOfAccount(db, auth.account_id);
  const answer: ProjectsResponse = {
    projects: projects.map((project) => ({ project_id: project.id, name: project.name })),
  };
  return noStore(Response.json(answer));
}
