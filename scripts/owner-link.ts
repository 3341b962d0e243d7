import { execFileSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { accountId } from "../src/protocol/ids.ts";
import { systemClock, systemRandom } from "../src/protocol/ports.ts";
import { ownerLink } from "./lib/owner-link.ts";

// `npm run owner:link`: the operator's way to let an owner in: the first of an endpoint, or one who lost every passkey.

const USAGE = `Makes a one-time sign-in link, good for 15 minutes.
  npm run owner:link -- --name NAME      for a new account, with a first project
  npm run owner:link -- --account ID     for an account that exists (acc_…)
Options: --url URL (default http://localhost:8787), --local (default) or --remote, --persist-to DIR`;

function fail(message: string): never {
  console.error(message);
  process.exit(2);
}

const { values } = parseArgs({
  options: {
    name: { type: "string" },
    account: { type: "string" },
    url: { type: "string", default: "http://localhost:8787" },
    local: { type: "boolean" },
    remote: { type: "boolean" },
    "persist-to": { type: "string" },
    help: { type: "boolean", short: "h" },
  },
});
if (values.help) {
  console.log(USAGE);
  process.exit(0);
}
if ((values.name === undefined) === (values.account === undefined))
  fail(`Give --name or --account.\n\n${USAGE}`);
if (values.account !== undefined && !accountId.safeParse(values.account).success)
  fail("--account must be acc_ and 32 hex digits, as the account page and the first link show it.");
if (values.name?.trim() === "" || (values.name ?? "").length > 120)
  fail("--name must have 1 to 120 characters.");
if (!URL.canParse(values.url))
  fail("--url must be the endpoint's address, such as https://relay.example.com");

const owner =
  values.account === undefined ? { name: values.name?.trim() ?? "" } : { accountId: values.account };
const link = await ownerLink(owner, { clock: systemClock, random: systemRandom });

// The statements go through a file: nothing of the account shows in the process list.
const folder = await mkdtemp(join(tmpdir(), "graph-relay-"));
const file = join(folder, "link.sql");
writeFileSync(file, `${link.sql.join(";\n")};\n`, { mode: 0o600 });
const place = values.remote ? ["--remote"] : ["--local"];
if (values["persist-to"] !== undefined) place.push("--persist-to", values["persist-to"]);
try {
  execFileSync("wrangler", ["d1", "execute", "DB", ...place, "--yes", "--file", file], {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, WRANGLER_SEND_METRICS: "false" },
  });
} catch (error) {
  const output = error instanceof Error && "stderr" in error ? String(error.stderr) : String(error);
  if (/FOREIGN KEY/i.test(output)) fail(`There is no account ${link.account_id} in this database.`);
  if (/no such table/i.test(output))
    fail("The database has no tables yet. Apply the migrations first: npx wrangler d1 migrations apply DB");
  fail(`The link was not stored. wrangler says:\n${output}`);
} finally {
  rmSync(folder, { recursive: true });
}

console.log(`Account ${link.account_id}`);
console.log(`Open within 15 minutes; it works once:\n${new URL("/sign-in", values.url).href}#${link.code}`);
