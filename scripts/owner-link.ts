import { accountId } from "../src/protocol/ids.ts";
import { LIMITS } from "../src/protocol/limits.ts";
import { systemClock, systemRandom } from "../src/protocol/ports.ts";
import { fail, optionsOf } from "./lib/command-line.ts";
import { executeOnD1 } from "./lib/d1-execute.ts";
import { invitation, ownerLink } from "./lib/owner-link.ts";

// `npm run owner:link`: the operator's way to let an owner in: the first of an endpoint, one who is invited,
// or one who lost every passkey.

const USAGE = `Makes a one-time link for an owner. Give one of:
  npm run owner:link -- --name NAME      signs in to a new account, with a first project; good for 15 minutes
  npm run owner:link -- --account ID     signs in to an account that exists (acc_…); good for 15 minutes
  npm run owner:link -- --invite         lets somebody make an account of their own; good for 7 days
Options: --url URL (default http://localhost:8787), --local (default) or --remote, --persist-to DIR`;

const values = optionsOf(
  {
    name: { type: "string" },
    account: { type: "string" },
    invite: { type: "boolean" },
    url: { type: "string", default: "http://localhost:8787" },
    local: { type: "boolean" },
    remote: { type: "boolean" },
    "persist-to": { type: "string" },
    help: { type: "boolean", short: "h" },
  },
  USAGE,
);
if (values.help) {
  console.log(USAGE);
  process.exit(0);
}
const name = values.name?.trim();
if ([name, values.account, values.invite].filter((value) => value !== undefined).length !== 1) fail(USAGE);
if (name !== undefined && (name === "" || name.length > LIMITS.nameCharacters))
  fail(`--name must have 1 to ${LIMITS.nameCharacters} characters.`);
if (values.account !== undefined && !accountId.safeParse(values.account).success)
  fail("--account must be acc_ and 32 hex digits, as the first link showed it.");
if (!URL.canParse(values.url))
  fail("--url must be the endpoint's address, such as https://relay.example.com");
if (values.local && values.remote) fail("Give --local or --remote, not both.");

const place = [values.remote ? "--remote" : "--local"];
if (values["persist-to"] !== undefined) place.push("--persist-to", values["persist-to"]);

function store(sql: string[], account: string): void {
  const error = executeOnD1(sql, place);
  if (error === undefined) return;
  if (/FOREIGN KEY/i.test(error)) fail(`There is no account ${account} in this database.`);
  if (/no such table/i.test(error))
    fail("The database has no tables yet. Apply the migrations first: npx wrangler d1 migrations apply DB");
  fail(`The link was not stored. wrangler says:\n${error}`);
}

const ports = { clock: systemClock, random: systemRandom };
if (values.invite) {
  const { code, sql } = await invitation(ports);
  store(sql, "");
  console.log(
    `Send this to who you invite. It works once, within 7 days:\n${new URL("/sign-up", values.url).href}#${code}`,
  );
} else {
  const owner = values.account === undefined ? { name: name ?? "" } : { accountId: values.account };
  const link = await ownerLink(owner, ports);
  store(link.sql, link.account_id);
  console.log(`Account ${link.account_id}`);
  console.log(`Open within 15 minutes; it works once:\n${new URL("/sign-in", values.url).href}#${link.code}`);
}
