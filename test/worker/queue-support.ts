import { env } from "cloudflare:workers";
import type { EnqueueRequest, ProjectAccess, ProjectQueueApi } from "../../src/durable/contract.ts";
import type { ProjectQueue } from "../../src/durable/project-queue.ts";
import { newCommandId, newId, newProjectId, newUuid } from "../../src/protocol/ids.ts";
import { DEFAULT_SETTINGS, type ProjectSettings } from "../../src/protocol/limits.ts";
import { systemRandom } from "../../src/protocol/ports.ts";

/** Where tests set the clock: far ahead, so that the runtime's own alarms, which go by real time, keep out. */
export const START = Date.UTC(2035, 0, 1);

/** A project of its own for one test, and its object as the Worker would call it. */
export async function newProject(settings: Partial<ProjectSettings> = {}) {
  const project_id = newProjectId(systemRandom);
  const stub = env.PROJECT_QUEUE.getByName(project_id);
  const project = {
    project_id,
    stub: stub as DurableObjectStub<ProjectQueue>,
    // The stub's type wraps every answer in the runtime's RPC types; the answers are plain data.
    queue: stub as unknown as ProjectQueueApi,
    agent_id: newId("agt", systemRandom),
    device_id: newId("dev", systemRandom),
    session_id: newId("gs", systemRandom),
  };
  await project.queue.applyAccess(accessOf(project, { settings: { ...DEFAULT_SETTINGS, ...settings } }));
  return project;
}
export type Project = Awaited<ReturnType<typeof newProject>>;

export const accessOf = (
  project: { project_id: string; agent_id: string; device_id: string },
  change: Partial<ProjectAccess> = {},
): ProjectAccess => ({
  project_id: project.project_id,
  version: 1,
  agents: [{ agent_id: project.agent_id, name: "Claude" }],
  devices: [{ device_id: project.device_id }],
  settings: DEFAULT_SETTINGS,
  ...change,
});

/** A request for a new run under a new key. */
export const request = (project: Project, change: Partial<EnqueueRequest> = {}): EnqueueRequest => ({
  agent_id: project.agent_id,
  command_id: newCommandId(project.project_id, systemRandom),
  graph_session_id: project.session_id,
  device_id: project.device_id,
  slug: "report",
  arguments_json: "{}",
  idempotency_key: uuid(),
  ...change,
});

export const uuid = (): string => newUuid(systemRandom);
