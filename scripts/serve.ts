import { parseArgs } from "node:util";
import { unstable_startWorker as startWorker } from "wrangler";

// The endpoint on this machine, as a process of its own: workerd with its databases in a folder. Started by
// `npm start` and by the tests. What `wrangler dev` adds, watching the sources and a local browser of the
// databases, is left out. It ends when its parent does.

/** The cron trigger of wrangler.toml, which nothing else fires on one machine. */
const CRON_MS = 60_000;

const { values } = parseArgs({
  options: {
    port: { type: "string" },
    databases: { type: "string" },
    "inspector-port": { type: "string" },
  },
});
const inspectorPort = values["inspector-port"];

const worker = await startWorker({
  config: "wrangler.toml",
  // The secret comes in the environment: no file that wrangler would look for, nothing in the process list.
  bindings: { SIGNING_KEYS: { type: "secret_text", value: process.env.SIGNING_KEYS ?? "" } },
  envFiles: [],
  dev: {
    server: { hostname: "localhost", port: Number(values.port) },
    persist: values.databases ?? false,
    inspector: inspectorPort !== undefined && { hostname: "127.0.0.1", port: Number(inspectorPort) },
    watch: false,
    logLevel: "warn",
  },
});
// Requests would wait for ever for sources that cannot be built; wrangler has printed why.
worker.raw.once("buildFailed", () => process.exit(1));
await worker.ready;
const timer = setInterval(() => {
  worker.scheduled({ cron: "* * * * *", scheduledTime: new Date() }).catch((error: unknown) => {
    console.error(`The minute's upkeep failed: ${error}`);
  });
}, CRON_MS);

const end = async () => {
  clearInterval(timer);
  await worker.dispose();
  process.exit(0);
};
process.on("SIGTERM", end);
process.on("SIGINT", end);
process.on("disconnect", end);
process.send?.("ready");
