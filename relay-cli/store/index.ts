import { approvalStore } from "./approvals.ts";
import { attemptStore } from "./attempts.ts";
import { callStore } from "./calls.ts";
import type { Store } from "./contract.ts";
import { deviceStore } from "./device.ts";
import { graphStore } from "./graphs.ts";
import { historyStore } from "./history.ts";
import { outboxStore } from "./outbox.ts";
import { projectStore } from "./projects.ts";
import { settingsStore } from "./settings.ts";
import type { Sql } from "./sql.ts";

/** The store over migrated tables. */
export function createStore(sql: Sql): Store {
  return {
    device: deviceStore(sql),
    graphs: graphStore(sql),
    projects: projectStore(sql),
    attempts: attemptStore(sql),
    outbox: outboxStore(sql),
    history: historyStore(sql),
    calls: callStore(sql),
    settings: settingsStore(sql),
    approvals: approvalStore(sql),
    close: () => sql.close(),
  };
}
