import type { EnqueueAnswer, EnqueueRequest } from "../../durable/contract.ts";
import { newCommandId, projectOfCommand } from "../../protocol/ids.ts";
import type { SessionPlace } from "../db/sessions.ts";
import { QueueUnavailable } from "../queues.ts";
import type { ToolContext } from "./context.ts";

/** A run to queue, before it is known where. */
export type Ask = Omit<EnqueueRequest, "command_id" | "device_id" | "slug">;

/**
 * What became of it: the object's answer, `not_shared` (with none of the agent's projects, and the key
 * names no run), or `out_of_reach`: the key names a run in a project that the agent has lost.
 */
export type Placement =
  | Exclude<EnqueueAnswer, { error: "key_claimed" }>
  | { ok: false; error: "not_shared" }
  | { ok: false; error: "out_of_reach"; command_id: string };

/** How often a key is claimed anew when it turns out to name a run that was never queued. */
const ROUNDS = 4;
/** Answers after which the key names nothing: it is free for another call. */
const GIVES_KEY_BACK: ReadonlySet<string> = new Set(["queue_full", "new_key", "not_shared"]);
/** How long a claimed run is given to be queued by whoever claimed it, before the claim counts as abandoned. */
const CLAIM_GRACE_MS = 500;

/** A place that the agent is connected to: where a run of its may go. */
type Reachable = SessionPlace & { connected_at: number };
const isReachable = (place: SessionPlace): place is Reachable => place.connected_at !== null;

const earliest = <Place extends SessionPlace>(places: readonly Place[], at: (place: Place) => number) =>
  [...places].sort((a, b) => at(a) - at(b) || (a.project_id < b.project_id ? -1 : 1))[0];

/**
 * Where a session's keys are kept: the project that it was shared with first. Nothing that happens to the
 * agent or to later projects changes it.
 */
export const homeOf = (places: readonly SessionPlace[]): SessionPlace | undefined =>
  earliest(places, (place) => place.first_shared_at);

/** Where a new run goes: the earliest connected project that the session is shared with now. */
export const targetOf = (places: readonly SessionPlace[]): Reachable | undefined =>
  earliest(
    places.filter(isReachable).filter((place) => place.shared),
    (place) => place.connected_at,
  );

/**
 * Queues `ask` once for its key, however its session's sharing and the agent's access changed since the key
 * was first used (design section 4). Usually one call: the keys' home is where the run goes.
 */
export async function enqueueOnce(
  places: readonly SessionPlace[],
  ask: Ask,
  context: ToolContext,
): Promise<Placement> {
  const home = homeOf(places);
  const reachable = places.filter(isReachable);
  if (home === undefined || reachable.length === 0) return { ok: false, error: "not_shared" };
  const target = targetOf(places);
  if (home === target || (ask.repeat_only && isReachable(home))) {
    const answer = await enqueueAt(home, newCommandId(home.project_id, context.random), ask, context);
    if (answer.ok || answer.error !== "key_claimed") return answer;
  }
  return new Claims(reachable, home, target, ask, context).settle();
}

function enqueueAt(
  place: SessionPlace,
  commandId: string,
  ask: Ask,
  { queues }: ToolContext,
): Promise<EnqueueAnswer> {
  const request = { ...ask, command_id: commandId, device_id: place.device_id, slug: place.slug };
  return queues.call(place.project_id, (queue) => queue.enqueue(request));
}

/** The way for a run whose key is kept in another project than the run itself: claim the key, then queue. */
class Claims {
  private readonly places: readonly Reachable[];
  private readonly home: SessionPlace;
  private readonly target: Reachable | undefined;
  private readonly ask: Ask;
  private readonly context: ToolContext;

  constructor(
    places: readonly Reachable[],
    home: SessionPlace,
    target: Reachable | undefined,
    ask: Ask,
    context: ToolContext,
  ) {
    this.places = places;
    this.home = home;
    this.target = target;
    this.ask = ask;
    this.context = context;
  }

  async settle(): Promise<Placement> {
    for (let round = 0; round < ROUNDS; round++) {
      const proposed = newCommandId((this.target ?? this.home).project_id, this.context.random);
      const claim = await this.claim(proposed);
      if (!claim.ok && claim.error === "access_removed") return claim;
      const settled =
        claim.command_id === proposed
          ? await this.queueNew(proposed)
          : await this.findEarlier(claim.command_id, claim.ok);
      if (settled) return settled;
    }
    throw new QueueUnavailable("the key is being claimed by other calls");
  }

  /** The key is ours: queue the run, or give the key back. */
  private async queueNew(commandId: string): Promise<Placement> {
    if (this.target === undefined) {
      await this.release(commandId);
      return { ok: false, error: "not_shared" };
    }
    return this.queue(this.target, commandId);
  }

  /**
   * The key names an earlier run; `sameSession`: one of this session. Undefined: it was never queued, and
   * the key is free again.
   */
  private async findEarlier(commandId: string, sameSession: boolean): Promise<Placement | undefined> {
    const place = this.places.find((p) => p.project_id === projectOfCommand(commandId));
    // Whoever claimed it may have failed before queueing it; the run can still go where it was meant to.
    if (sameSession && place?.shared) return this.queue(place, commandId);
    const run = (await this.look(commandId)) ?? (await this.lookLater(commandId));
    if (run === undefined) {
      if (sameSession && place === undefined)
        return { ok: false, error: "out_of_reach", command_id: commandId };
      await this.release(commandId);
      return undefined;
    }
    if (sameSession && place) return this.queue(place, commandId);
    return { ok: false, error: "key_conflict", run: { command_id: commandId, status: run.status } };
  }

  /** Queues the run under its claimed id, or finds it queued; its own project compares the arguments. */
  private async queue(place: SessionPlace, commandId: string): Promise<Placement> {
    const answer = await enqueueAt(place, commandId, this.ask, this.context);
    if (!answer.ok && GIVES_KEY_BACK.has(answer.error)) await this.release(commandId);
    if (!answer.ok && answer.error === "key_claimed")
      return { ok: false, error: "out_of_reach", command_id: answer.command_id };
    return answer;
  }

  private claim(commandId: string) {
    const { agent_id, graph_session_id, idempotency_key } = this.ask;
    const request = { agent_id, graph_session_id, idempotency_key, command_id: commandId };
    return this.context.queues.call(this.home.project_id, (queue) => queue.claimKey(request));
  }

  private release(commandId: string): Promise<void> {
    const { agent_id, idempotency_key } = this.ask;
    const request = { agent_id, idempotency_key, command_id: commandId };
    return this.context.queues.call(this.home.project_id, (queue) => queue.releaseKey(request));
  }

  private async look(commandId: string) {
    const project = projectOfCommand(commandId);
    if (project === undefined) return undefined;
    const request = { agent_id: this.ask.agent_id, command_id: commandId, wait_ms: 0 };
    return this.context.queues.call(project, (queue) => queue.getRun(request));
  }

  private async lookLater(commandId: string) {
    await this.context.sleep(CLAIM_GRACE_MS);
    return this.look(commandId);
  }
}
