import { newUuid } from "../../src/protocol/ids.ts";
import type { Experiment, Figure } from "./figure.ts";
import type { NewLaboratory } from "./load.ts";

const RUNS = 200;
const DROPPED = 0.3;
/** Calls sent with a new key on each retry, with the same key, and runs queued with a new key: three repetitions. */
const PUBLISHED = { newKey: [266, 302, 286], sameKey: [270, 291, 275], queued: 200 };

/** What the key buys: runs are asked for until an answer comes, and three answers in ten do not. */
export async function idempotency(newLaboratory: NewLaboratory): Promise<Experiment> {
  const figures: Figure[] = [];
  for (const [way, told] of [
    ["new key on retry", PUBLISHED.newKey],
    ["same key on retry", PUBLISHED.sameKey],
  ] as const)
    for (const [n, published] of told.entries()) {
      const { calls, queued } = await repetition(newLaboratory, way, n);
      // Each call is answered with a chance of 0.7, so the calls for 200 answers vary by this much.
      const chance = Math.ceil(1.96 * Math.sqrt((2 * RUNS * DROPPED) / (1 - DROPPED) ** 2));
      figures.push({ what: `${way}, ${n + 1}: calls sent`, published, ours: calls, unit: "calls", chance });
      const expected = way === "new key on retry" ? published : PUBLISHED.queued;
      const byChance = way === "new key on retry" ? { chance } : {};
      figures.push({
        what: `${way}, ${n + 1}: runs queued`,
        published: expected,
        ours: queued,
        unit: "runs",
        ...byChance,
      });
    }
  return {
    name: "idempotency",
    title: "What does the idempotency key buy?",
    method: `${RUNS} runs a repetition, 30 % of the answers dropped, the caller asking again until one arrives.`,
    figures,
  };
}

async function repetition(
  newLaboratory: NewLaboratory,
  way: string,
  n: number,
): Promise<{ calls: number; queued: number }> {
  const lab = newLaboratory(`${way} ${n}`);
  await lab.until(lab.begin());
  const tickets = new Set<string>();
  let calls = 0;
  const ask = async () => {
    let key = newUuid(lab.random);
    for (;;) {
      calls++;
      tickets.add((await lab.run(60, key)).command_id);
      if (!lab.random.chance(DROPPED)) return;
      if (way === "new key on retry") key = newUuid(lab.random);
    }
  };
  for (let i = 0; i < RUNS; i++) await lab.until(ask());
  lab.close();
  return { calls, queued: tickets.size };
}
