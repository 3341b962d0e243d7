import type { Clock, RandomSource } from "../../protocol/ports.ts";
import type { AgentAuth } from "../auth.ts";
import type { Queues } from "../queues.ts";

/** What a tool works with: who calls, and the ways out of the Worker. */
export interface ToolContext {
  auth: AgentAuth;
  db: D1Database;
  queues: Queues;
  clock: Clock;
  random: RandomSource;
  /** Tells the objects of these projects anew who may use them. */
  deliverAccess(projectIds: readonly string[]): Promise<void>;
}
