import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { newSigningKeys } from "./lib/signing-keys.ts";

// `npm run keys`: makes the key that signs laptops' tokens, for local use in .dev.vars; with --print, for a
// secret store. What is there is never written over.

const FILE = ".dev.vars";

if (process.argv.includes("--print")) {
  console.log(await newSigningKeys());
} else {
  const before = existsSync(FILE) ? readFileSync(FILE, "utf8") : "";
  if (/^SIGNING_KEYS=/m.test(before)) {
    console.log(`${FILE} has SIGNING_KEYS already; nothing was changed.`);
  } else {
    const end = before === "" || before.endsWith("\n") ? "" : "\n";
    writeFileSync(FILE, `${before}${end}SIGNING_KEYS='${await newSigningKeys()}'\n`, { mode: 0o600 });
    console.log(`SIGNING_KEYS was written to ${FILE}.`);
  }
}
