import type { Mutant } from "./mutants.ts";

const fault = (name: string, file: string, find: string, replace: string): Mutant => ({
  name,
  mutations: [{ file: `src/${file}`, find, replace }],
});

/** Faults of the projects' objects and of the Worker. */
export const SERVER_MUTANTS: readonly Mutant[] = [
  fault(
    "another attempt may start a running command too",
    "durable/running.ts",
    '.set(lease)\n    .where(and(sameAttempt, inState("running")))',
    '.set(lease)\n    .where(and(ofDevice, inState("running")))',
  ),
  fault(
    "a start takes a command in whatever state",
    "durable/running.ts",
    '.where(and(ofDevice, inState("queued")))',
    ".where(ofDevice)",
  ),
  fault(
    "a heartbeat brings back any ended run",
    "durable/running.ts",
    '.where(and(sameAttempt, inState("lost")))',
    ".where(sameAttempt)",
  ),
  fault(
    "a heartbeat does not say that a stop was asked for",
    "durable/running.ts",
    "cancel_requested: won.to_stop_at !== null,",
    "cancel_requested: false,",
  ),
  fault(
    "a heartbeat does not renew the lease",
    "durable/running.ts",
    "lease_until: leaseUntil(scope),\n    progress_json",
    "lease_until: 0,\n    progress_json",
  ),
  fault(
    "lost wins over a result",
    "durable/complete.ts",
    'or(inState("running"), inState("lost"))',
    'inState("running")',
  ),
  fault(
    "a run that was told to stop ends as it likes",
    "durable/complete.ts",
    " is not null`;",
    " is null and 1 = 0`;",
  ),
  fault(
    "the outcome is confirmed and not stored",
    "durable/complete.ts",
    "to(scope).storeOutcome.run({ seq: won.seq, outcome_json });",
    "",
  ),
  fault(
    "cancel takes a running command for a queued one",
    "durable/agent-calls.ts",
    '.where(and(ofAgent, inState("queued")))',
    ".where(ofAgent)",
  ),
  fault(
    "cancel forgets a running command",
    "durable/agent-calls.ts",
    'or(inState("running"), inState("lost"))',
    'inState("lost")',
  ),
  fault(
    "any agent sees any run",
    "durable/scope.ts",
    'eq(commands.agent_id, given("agent_id")),\n  isKept',
    "isKept",
  ),
  fault(
    "an agent needs no access",
    "durable/scope.ts",
    "listed(scope).get({ agent_id }) !== undefined",
    "listed(scope).get({ agent_id }) !== null",
  ),
  fault(
    "a key is looked up without its agent",
    "durable/keys.ts",
    'and(eq(commands.agent_id, given("agent_id")), eq(commands.idempotency_key, given("key")))',
    'eq(commands.idempotency_key, given("key"))',
  ),
  fault(
    "a key is stored with the session it is for",
    "durable/enqueue.ts",
    "const key = storedKey(request.idempotency_key);",
    "const key = storedKey(request.idempotency_key + request.command_id);",
  ),
  fault(
    "a used key quietly gives the old ticket",
    "durable/enqueue.ts",
    "payload?.arguments_json === request.arguments_json;",
    "payload !== undefined;",
  ),
  fault(
    "keys are not looked for in the projects a session was shared with",
    "worker/mcp/placement.ts",
    "if (home === target) {\n    const answer = await enqueueAt(home, newCommandId(home.project_id",
    "if (target !== undefined) {\n    const answer = await enqueueAt(target, newCommandId(target.project_id",
  ),
  fault(
    "where keys are kept changes when an agent is connected anew",
    "worker/mcp/placement.ts",
    "earliest(places, (place) => place.first_shared_at);",
    "earliest(places, (place) => Math.max(place.connected_at ?? 0, place.first_shared_at));",
  ),
  fault(
    "a queued command never expires",
    "durable/time.ts",
    "[...to(scope).expire.all(values), ...to(scope).lose.all(values)]",
    "to(scope).lose.all(values)",
  ),
  fault(
    "a lease never ends",
    "durable/time.ts",
    '.where(and(inState("running"), lte(commands.lease_until, given("now"))))',
    '.where(and(inState("running"), lte(commands.lease_until, 0)))',
  ),
  fault(
    "the alarm is not set again",
    "durable/project-queue.ts",
    "this.#alarmAt = null;\n    this.#armFor(this.#queue?.nextAlarm() ?? null);\n  }\n\n  #newQueue",
    "this.#alarmAt = null;\n  }\n\n  #newQueue",
  ),
  fault(
    "records are deleted an hour early",
    "durable/time.ts",
    "const over = to(scope).findOver.all({ now });",
    "const over = to(scope).findOver.all({ now: now + 3_600_000 });",
  ),
  fault("claims of keys are kept for ever", "durable/time.ts", "to(scope).dropClaims.run({ now });", ""),
  fault(
    "an older list of agents and devices replaces a newer one",
    "durable/access.ts",
    "where excluded.access_version > meta.access_version",
    "where true",
  ),
  fault(
    "the queued commands of a removed device stay",
    "durable/access.ts",
    'cancelQueued(scope, deviceGone, "device_removed");',
    "",
  ),
  fault(
    "a device is given every device's commands",
    "durable/sync.ts",
    '.where(and(inState("queued"), eq(commands.device_id, given("device_id"))))',
    '.where(inState("queued"))',
  ),
  fault(
    "the object goes on believing its digest while D1 is written",
    "durable/sync.ts",
    "to(scope).beginSet.run({ device_id, storing: storing(set_version) });",
    "",
  ),
  fault(
    "access that did not reach its object is not delivered again",
    "worker/access.ts",
    "await deliverAccess(\n    env,\n    behind.map((p) => p.id),\n  );",
    "",
  ),
];
