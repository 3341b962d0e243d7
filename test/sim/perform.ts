import type { SimulatedLaptop } from "./actors/laptop.ts";
import type { Account, Agent, Operation } from "./scenario/scenario.ts";
import type { World } from "./world.ts";

/** Does what someone does at this moment. What takes time goes on by itself. */
export function perform(world: World, operation: Operation): void {
  const { do: what, n: _number, at: _at, ...details } = operation;
  const told = "behaviour" in details ? { ...details, behaviour: details.behaviour.mark } : details;
  world.history.add("world", what, told);
  if ("agent" in operation) byAgent(world, operation);
  else if (operation.do === "evict") world.server.objects.evict(operation.project);
  else {
    const laptop = world.laptops.get(operation.laptop);
    if (laptop !== undefined) onLaptop(world, laptop, operation);
  }
}

type ByAgent = Extract<Operation, { agent: string }>;
type OnLaptop = Extract<Operation, { laptop: string }>;

function byAgent(world: World, operation: ByAgent): void {
  const agent = world.agents.get(operation.agent);
  if (agent === undefined) return;
  switch (operation.do) {
    case "run":
      void agent.run(operation.graph, operation.key, operation.behaviour, operation.patience);
      break;
    case "run otherwise":
      void agent.ask(operation.graph, operation.key, operation.behaviour);
      break;
    case "run again": {
      const run = runOf(world, operation.of);
      if (run) void agent.again(run.key);
      break;
    }
    case "cancel":
    case "peek": {
      const run = runOf(world, operation.of);
      const command = run && world.agents.get(run.agent)?.commandOf(run.key);
      if (command === undefined) break;
      void (operation.do === "cancel" ? agent.cancel(command) : agent.peek(command, operation.cancel));
      break;
    }
    case "list":
      void agent.list();
      break;
    case "revoke":
      twice(() => world.owner.revoke(accountOf(world, agent.facts), agent.facts));
      break;
    case "connect":
      twice(() => world.owner.connect(accountOf(world, agent.facts), agent.facts, operation.projects));
      break;
  }
}

function onLaptop(world: World, laptop: SimulatedLaptop, operation: OnLaptop): void {
  switch (operation.do) {
    case "share":
    case "unshare":
      laptop.share(operation.project, operation.graph, operation.do === "share");
      break;
    case "enable":
    case "disable":
      laptop.enable(operation.project, operation.do === "enable");
      break;
    case "rename":
      laptop.rename(operation.graph, operation.slug);
      break;
    case "remove device":
      twice(() => world.owner.removeDevice(laptop.account, laptop.facts.deviceId));
      break;
    case "kill":
      laptop.kill("from outside");
      break;
    case "stop":
      laptop.stop();
      break;
    case "start":
      laptop.start();
      break;
    case "sleep":
      laptop.machine.fallAsleep();
      break;
    case "wake":
      laptop.machine.wake();
      break;
    case "go offline":
      world.network.offline.add(laptop.name);
      break;
    case "go online":
      world.network.offline.delete(laptop.name);
      break;
    case "jump clock":
      laptop.machine.wallError += operation.by;
      break;
    case "copy state":
      world.addLaptop(operation.to, laptop)?.start();
      break;
  }
}

/** The owner's page fails as the server does; the owner tries once more. */
function twice(change: () => Promise<void>): void {
  void change().catch(() => change().catch(() => {}));
}

const runOf = (world: World, n: number) =>
  world.scenario.operations.find((o): o is Extract<Operation, { do: "run" }> => o.n === n && o.do === "run");

function accountOf(world: World, agent: Agent): Account {
  const account = world.scenario.accounts.find((a) => a.agents.includes(agent));
  if (account === undefined) throw new Error(`${agent.name} has no account`);
  return account;
}
