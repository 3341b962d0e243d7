import { existsSync, readFileSync, writeFileSync } from "node:fs";
import type { JWK } from "jose";
import { fail, optionsOf } from "./lib/command-line.ts";
import { newSigningKeys } from "./lib/signing-keys.ts";

// `npm run keys`: makes and changes the key that signs laptops' tokens.

const FILE = ".dev.vars";
const USAGE = `Makes the secret SIGNING_KEYS, the key that signs laptops' tokens.
  npm run keys                                writes it to ${FILE} for local use, if it is not there
  npm run keys -- --rotate                    puts a new key first there, and keeps the last to verify
  npm run --silent keys -- --print            prints a new one, for: npx wrangler secret put SIGNING_KEYS
  npm run --silent keys -- --rotate --url URL prints one that still verifies the endpoint's present key, for the same`;

const LINE = /^SIGNING_KEYS='?(.*?)'?$/m;

/** The keys that an endpoint verifies with: public, so the operator needs no copy of the secret. */
async function keysOf(endpoint: string): Promise<{ keys: JWK[] }> {
  const address = new URL("/.well-known/jwks.json", endpoint).href;
  const response = await fetch(address).catch(() => fail(`${address} could not be reached.`));
  if (!response.ok) fail(`${address} answered ${response.status}.`);
  return (await response.json()) as { keys: JWK[] };
}

async function writeLocal(rotate: boolean): Promise<void> {
  const before = existsSync(FILE) ? readFileSync(FILE, "utf8") : "";
  const present = LINE.exec(before)?.[1];
  if (present !== undefined && !rotate) {
    console.log(`${FILE} has SIGNING_KEYS already; nothing was changed.`);
    return;
  }
  const keys = await newSigningKeys(
    present === undefined ? undefined : (JSON.parse(present) as { keys: JWK[] }),
  );
  const line = `SIGNING_KEYS='${keys}'`;
  const end = before === "" || before.endsWith("\n") ? "" : "\n";
  writeFileSync(FILE, present === undefined ? `${before}${end}${line}\n` : before.replace(LINE, () => line), {
    mode: 0o600,
  });
  console.log(`SIGNING_KEYS was written to ${FILE}.`);
}

const values = optionsOf(
  {
    print: { type: "boolean" },
    rotate: { type: "boolean" },
    url: { type: "string" },
    help: { type: "boolean", short: "h" },
  },
  USAGE,
);
if (values.help) console.log(USAGE);
else if (values.url !== undefined) {
  if (!values.rotate) fail(USAGE);
  console.log(await newSigningKeys(await keysOf(values.url)));
} else if (values.print) console.log(await newSigningKeys());
else await writeLocal(values.rotate === true);
