export { ProjectQueue } from "../durable/project-queue.ts";

export default {
  fetch: () => new Response("Not found", { status: 404 }),
};
