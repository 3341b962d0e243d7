import { setTimeout as wait } from "node:timers/promises";
import { TREATMENTS, type Treatment } from "../support/chaos-proxy.ts";
import type { RealRelay } from "../support/real-relay.ts";
import type { Moment, Plan } from "./plan.ts";
import { type KillWorld, until } from "./world.ts";

/** Carries out one random kill, brings back the endpoint, and answers what is broken. */
export async function strike(world: KillWorld, plan: Plan): Promise<string[]> {
  const { victim, moment, wishes, noise } = plan;
  const relay = world.relays[plan.relay % world.relays.length] as RealRelay;
  const asking = Promise.all(wishes.map((wish) => world.ask(relay, wish)));
  // An endpoint may die while it is asked; for a relay there has to be something to do.
  if (victim === "relay") await asking;
  const cancelling = asking.then(async ([first]) => {
    if (plan.cancel_after_ms === undefined || first === undefined) return;
    await wait(plan.cancel_after_ms);
    await world.cancel(first);
  });
  if (noise) relay.proxy.next(noise.kind, TREATMENTS[noise.treatment]);

  let struck: Promise<void> | undefined;
  const kill = () => {
    struck ??= Promise.all([
      victim === "endpoint" ? undefined : relay.kill9(),
      victim === "relay" ? undefined : world.killEndpoint(),
    ]).then(() => {});
    return struck;
  };
  const struckAtMoment = arrange(relay, moment, kill);
  void asking.then(() => {
    if (plan.cut_sockets) relay.proxy.cutSockets();
    if (relay.running) relay.wake();
  });
  // A moment that does not come in this history is any moment of it.
  const noMoreToCome = asking
    .then(() => until("all is at rest", () => struck !== undefined || world.isAtRest([relay])))
    .catch(() => {});
  await Promise.race([struckAtMoment, noMoreToCome]);
  await kill();

  const broken = world.brokenNow();
  if (victim !== "relay") await world.endpoint.restart();
  await asking;
  await cancelling;
  relay.proxy.calm();
  return [...broken, ...world.brokenNow(), ...(plan.chained ? [] : await world.brokenAtRest())];
}

/** Has the kill come at the moment, with the relay started. Resolves once it came. */
async function arrange(relay: RealRelay, moment: Moment, kill: () => Promise<void>): Promise<void> {
  if (moment.at === "statement") {
    await relay.kill9();
    relay.start(moment);
    return relay.gone();
  }
  relay.start();
  if (moment.at === "time") {
    await wait(moment.ms);
    return kill();
  }
  return new Promise((done) =>
    relay.proxy.next(
      moment.kind,
      killAt(moment, () => kill().then(done)),
    ),
  );
}

function killAt({ when, delay_ms }: Moment & { at: "call" }, kill: () => Promise<void>): Treatment {
  return async (exchange) => {
    if (when === "half-way in") await exchange.forwardHalf();
    if (when === "after") await exchange.forward();
    if (when === "in flight") {
      exchange.forward().catch(() => {});
      await wait(delay_ms);
    }
    await kill();
    exchange.cut();
  };
}
