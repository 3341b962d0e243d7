import { parentPort, workerData } from "node:worker_threads";
import type { Experiment } from "./figure.ts";
import { loadProduct } from "./load.ts";

/** The line of the product that keeps an outcome until it is confirmed, left out for one experiment. */
const NO_OUTBOX = {
  file: "relay-cli/store/attempts.ts",
  find: "recordEnd(sql, record);\n        putInOutbox(sql, outbox);",
  replace: "recordEnd(sql, record);",
};

const { part } = workerData as { part: "watched" | "rest" | "without outbox" };
const laboratory = await loadProduct(part === "without outbox" ? [NO_OUTBOX] : []);
const load = {
  pickup: () => import("./pickup.ts"),
  fanOut: () => import("./fan-out.ts"),
  cancel: () => import("./cancel.ts"),
  idempotency: () => import("./idempotency.ts"),
  offline: () => import("./offline.ts"),
  resultSize: () => import("./result-size.ts"),
};

async function experiments(): Promise<Experiment[]> {
  if (part === "watched")
    return [
      ...(await (await load.pickup()).pickup(laboratory)),
      await (await load.cancel()).cancel(laboratory),
    ];
  const { offline, lostCompletion } = await load.offline();
  const lost = await lostCompletion(laboratory, part === "rest");
  const outbox: Experiment = {
    name: "outbox",
    title: "What if the completion is lost on the way?",
    method:
      "A run of 20 s whose first completion does not get through. Off: the product with the line that fills its outbox left out.",
    ...lost,
  };
  if (part === "without outbox") return [outbox];
  const { resultSize, visibility } = await load.resultSize();
  return [
    await (await load.fanOut()).fanOut(laboratory),
    await (await load.idempotency()).idempotency(laboratory),
    await offline(laboratory),
    outbox,
    resultSize(),
    await visibility(laboratory),
  ];
}

parentPort?.postMessage(await experiments());
