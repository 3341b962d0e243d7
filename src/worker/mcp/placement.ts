import type { ClaimKeyAnswer, EnqueueAnswer, EnqueueRequest, KeyTaken } from "../../durable/contract.ts";
import { newCommandId, projectOfCommand } from "../../protocol/ids.ts";
import type { SessionPlace } from "../db/sessions.ts";
import { QueueUnavailable } from "../queues.ts";
import type { ToolContext } from "./context.ts";

/** A run to queue, before it is known where. */
export type Ask = Omit<EnqueueRequest, "command_id" | "device_id" | "slug">;

/**
 * What became of it: the object's answer, `not_shared` (with none of the agent's projects, and the key
 * names no run), or `out_of_reach`: the key names a run in a project that the agent has lost, or one of
 * another session that is kept elsewhere.
 */
export type Placement =
  | Exclude<EnqueueAnswer, { error: "key_claimed" }>
  | { ok: false; error: "out_of_reach"; command_id: string };

/** How often a key is claimed anew when other calls with it are under way. */
const ROUNDS = 4;
/**
 * How long a claimed run may still be queued under its id by another call than its claimer, in milliseconds:
 * well below the shortest retention (an hour), so the id cannot be one whose record is over already.
 */
const ADOPT_MS = 10 * 60_000;
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
  if (home === target) {
    const answer = await enqueueAt(home, newCommandId(home.project_id, context.random), ask, context);
    if (answer.ok || answer.error !== "key_claimed") return answer;
  }
  const keys = new Keys(reachable, home, ask, context);
  if (target === undefined) return (await keys.find()) ?? { ok: false, error: "not_shared" };
  if (ask.repeat_only) return (await keys.find()) ?? { ok: false, error: "new_key" };
  return new Claims(keys, target, ask, context).settle();
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

const isTaken = (answer: ClaimKeyAnswer): answer is KeyTaken => !answer.ok && answer.error === "key_taken";
const outOfReach = (command_id: string): Placement => ({ ok: false, error: "out_of_reach", command_id });

/** The key of an ask, in the projects that may hold it. */
class Keys {
  private readonly places: readonly Reachable[];
  readonly home: SessionPlace;
  private readonly ask: Ask;
  private readonly context: ToolContext;

  constructor(places: readonly Reachable[], home: SessionPlace, ask: Ask, context: ToolContext) {
    this.places = places;
    this.home = home;
    this.ask = ask;
    this.context = context;
  }

  /** The run that the key names already, for a call that queues none: it writes nothing. */
  async find(): Promise<Placement | undefined> {
    const named = await this.findIn(this.home.project_id);
    if (named === undefined) return undefined;
    if (named.age_ms === null) return this.repeated(named);
    const run = await this.findIn(projectOfCommand(named.command_id) ?? "");
    return run?.age_ms === null ? this.repeated(run) : undefined;
  }

  /** A run of this key that stands in its project; its record compares session and arguments. Undefined: its time is over. */
  async repeated({ command_id }: KeyTaken): Promise<Placement | undefined> {
    const place = this.placeOf(command_id);
    if (place === undefined) return outOfReach(command_id);
    const answer = await enqueueAt(place, command_id, { ...this.ask, repeat_only: true }, this.context);
    return !answer.ok && (answer.error === "new_key" || answer.error === "key_claimed") ? undefined : answer;
  }

  placeOf(commandId: string): Reachable | undefined {
    return this.places.find((place) => place.project_id === projectOfCommand(commandId));
  }

  claimIn(project: string, commandId: string, replaces?: string): Promise<ClaimKeyAnswer> {
    const request = { ...this.key, command_id: commandId, ...(replaces === undefined ? {} : { replaces }) };
    return this.context.queues.call(project, (queue) => queue.claimKey(request));
  }

  release(commandId: string): Promise<void> {
    const request = { ...this.key, command_id: commandId };
    return this.context.queues.call(this.home.project_id, (queue) => queue.releaseKey(request));
  }

  private findIn(project: string): Promise<KeyTaken | undefined> {
    return this.context.queues.call(project, (queue) => queue.findKey(this.key));
  }

  private get key() {
    const { agent_id, graph_session_id, idempotency_key } = this.ask;
    return { agent_id, graph_session_id, idempotency_key };
  }
}

/**
 * The way for a run whose key is kept in another project than the run itself: claim the key there, then queue.
 * A claimed run that was never queued is made void before the key names another: its own project is told that
 * the key is taken, and refuses it from then on. So no two runs of a key are ever queued.
 */
class Claims {
  private readonly keys: Keys;
  private readonly target: Reachable;
  private readonly ask: Ask;
  private readonly context: ToolContext;

  constructor(keys: Keys, target: Reachable, ask: Ask, context: ToolContext) {
    this.keys = keys;
    this.target = target;
    this.ask = ask;
    this.context = context;
  }

  async settle(): Promise<Placement> {
    for (let round = 0; round < ROUNDS; round++) {
      const proposed = newCommandId(this.target.project_id, this.context.random);
      const claim = await this.keys.claimIn(this.keys.home.project_id, proposed);
      if (!claim.ok && claim.error === "access_removed") return claim;
      const settled = claim.ok ? await this.queueNew(proposed) : await this.follow(claim, proposed);
      if (settled) return settled;
    }
    throw new QueueUnavailable("the key is being claimed by other calls");
  }

  /** The key is ours: queue the run. Undefined: another call has made it void meanwhile. */
  private async queueNew(commandId: string): Promise<Placement | undefined> {
    const answer = await enqueueAt(this.target, commandId, this.ask, this.context);
    if (answer.ok || answer.error === "access_removed") return answer;
    let refusal: Placement;
    if (answer.error === "key_claimed") {
      const other = await this.keys.claimIn(this.target.project_id, commandId);
      if (!isTaken(other) || other.same_session) return undefined;
      // The target keeps the keys of another session, and this one among them.
      refusal = outOfReach(other.command_id);
    } else refusal = answer;
    await this.keys.release(commandId);
    return refusal;
  }

  /** The key names an earlier run. Undefined: it is free again, or being claimed by another call. */
  private async follow(earlier: KeyTaken, proposed: string): Promise<Placement | undefined> {
    const { command_id, same_session, age_ms } = earlier;
    const place = this.keys.placeOf(command_id);
    if (age_ms === null) return this.keys.repeated(earlier);
    if (same_session && place?.shared && age_ms < ADOPT_MS) {
      const answer = await enqueueAt(place, command_id, this.ask, this.context);
      if (answer.ok || answer.error !== "key_claimed") return answer;
    }
    const found = await this.makeVoid(command_id, proposed);
    if (found === "busy") return undefined;
    if (found !== "void")
      return found.age_ms === null ? this.keys.repeated(found) : outOfReach(found.command_id);
    const claim = await this.keys.claimIn(this.keys.home.project_id, proposed, command_id);
    if (!claim.ok && claim.error === "access_removed") return claim;
    return claim.ok ? this.queueNew(proposed) : undefined;
  }

  /**
   * Makes sure that a claimed run is never queued: its project is told that the key is taken. Answers what the
   * key names there instead, if that is its run after all, or something of another session.
   */
  private async makeVoid(commandId: string, proposed: string): Promise<KeyTaken | "void" | "busy"> {
    const project = projectOfCommand(commandId);
    // Where keys are kept, the claim itself stands in the way of any other run.
    if (project === undefined || project === this.keys.home.project_id) return "void";
    let claim = await this.keys.claimIn(project, proposed);
    // Another call was about to do the same, and may never come to it.
    if (isTaken(claim) && claim.age_ms !== null && claim.same_session)
      claim = await this.keys.claimIn(project, proposed, claim.command_id);
    if (!isTaken(claim)) return "void";
    return claim.age_ms !== null && claim.same_session ? "busy" : claim;
  }
}
