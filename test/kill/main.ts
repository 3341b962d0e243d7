import { randomInt } from "node:crypto";
import { parseArgs } from "node:util";
import { planOf } from "./plan.ts";
import { strike } from "./strike.ts";
import { KillWorld } from "./world.ts";

// `npm run test:kill`: a real endpoint and real relays, killed at random points.

const HELP = `npm run test:kill -- [options]

  --points N   so many kills (200)
  --seed S     of this seed's plan (a random one)
  --from N     begin with this one of the plan (1)
`;
const LAPTOPS = 4;

const { values } = parseArgs({
  options: {
    points: { type: "string", default: "200" },
    seed: { type: "string", default: String(randomInt(1_000_000)) },
    from: { type: "string", default: "1" },
    help: { type: "boolean", default: false },
  },
});
// The relays lead groups of their own, which a signal of the terminal does not reach: they are ended at `exit`.
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(130));
if (values.help) console.log(HELP);
else process.exitCode = await main(values.seed, Number(values.from), Number(values.points));

async function main(seed: string, from: number, points: number): Promise<number> {
  console.log(`${points} kill points of seed ${seed}`);
  const began = performance.now();
  const seconds = () => ((performance.now() - began) / 1000).toFixed(0);
  const world = await KillWorld.open(LAPTOPS);
  const violations: string[] = [];
  let n = from;
  try {
    for (; n < from + points && violations.length === 0; n++) {
      const plan = planOf(seed, n, LAPTOPS);
      violations.push(...(await strike(world, plan)));
      if (violations.length > 0) console.log(`At point ${n}: ${JSON.stringify(plan)}`);
      else if ((n - from) % 20 === 19) console.log(`${n - from + 1} points, ${seconds()} s`);
    }
    if (violations.length === 0) violations.push(...(await world.brokenAtRest(world.relays)));
    violations.push(...(await world.leftovers(world.relays)).map((line) => `left over: ${line}`));
    console.log(
      `${n - from} points of seed ${seed} in ${seconds()} s: ${summary(world)}, ${violations.length} violations`,
    );
    for (const line of violations) console.log(`BROKEN: ${line}`);
    if (violations.length > 0) {
      console.log(`Again: npm run test:kill -- --seed ${seed} --from ${from} --points ${n - from}`);
      for (const relay of world.relays) console.log(`\n${relay.folder}:\n${relay.log()}`);
    }
    return violations.length === 0 ? 0 : 1;
  } finally {
    await world.close();
  }
}

function summary({ relays, endpointKills, asked }: KillWorld): string {
  const relayKills = relays.flatMap(({ deaths }) => deaths).length;
  const executions = relays.flatMap((relay) => relay.marks()).filter(({ what }) => what === "begin").length;
  return `${relayKills} kills of a relay, ${endpointKills} of the endpoint, ${asked.length} runs asked for, ${executions} executions`;
}
