import { LIMITS } from "../../protocol/limits.ts";
import { systemClock } from "../../protocol/ports.ts";
import { audit } from "../db/audit.ts";
import { database } from "../db/client.ts";
import { passkeyInsert, passkeysOfAccount, removePasskey } from "../db/passkeys.ts";
import { issuerOf } from "../oauth/issuer.ts";
import { formError, signInAgain } from "./answers.ts";
import { beginChallenge, endChallenge } from "./challenges.ts";
import { displayText, text } from "./forms.ts";
import { problem } from "./layout.ts";
import { challengeOf, creationOptions, newPasskey, readCredential } from "./passkeys.ts";
import { isFresh, type Owner, type WebContext } from "./session.ts";

const PASSKEYS_MAX = 20;

/** `POST /account/passkeys/options`: a challenge for one more passkey, after a fresh sign-in. */
export async function addPasskeyOptions(c: WebContext, owner: Owner) {
  if (!isFresh(owner))
    return formError(
      c,
      403,
      "This needs a sign-in of the last ten minutes. Sign out, sign in again, then add the passkey.",
    );
  const have = await passkeysOfAccount(database(c.env.DB), owner.account_id);
  if (have.length >= PASSKEYS_MAX)
    return formError(c, 400, `An account has at most ${PASSKEYS_MAX} passkeys.`);
  const account = { id: owner.account_id, name: owner.account_name };
  const options = await creationOptions(issuerOf(c.req.raw), account, have);
  await beginChallenge(c, "passkey_add", options.challenge, { accountId: owner.account_id });
  return c.json(options);
}

/** `POST /account/passkeys`: the new passkey. */
export async function addPasskey(c: WebContext, owner: Owner, form: FormData) {
  if (!isFresh(owner)) return signInAgain(c);
  const answer = readCredential(text(form, "credential"));
  const challenge = answer && challengeOf(answer);
  const begun = challenge ? await endChallenge(c, "passkey_add", challenge) : undefined;
  const made =
    answer && challenge && begun?.accountId === owner.account_id
      ? await newPasskey(answer, challenge, issuerOf(c.req.raw))
      : undefined;
  if (!made) return problem(c, 400, "Not added", "This passkey was not accepted. Go back and try again.");
  const name = displayText(text(form, "name"), LIMITS.nameCharacters) || "Passkey";
  const db = database(c.env.DB);
  const now = systemClock.now();
  await db.batch([
    passkeyInsert(db, { ...made, account_id: owner.account_id, name, created_at: now }),
    audit(db, owner.account_id, now, "passkey_added", { name }),
  ]);
  return c.redirect("/account", 303);
}

/** `POST /account/passkeys/remove`. */
export async function dropPasskey(c: WebContext, owner: Owner, form: FormData) {
  if (!isFresh(owner)) return signInAgain(c);
  const db = database(c.env.DB);
  const name = await removePasskey(db, owner.account_id, text(form, "credential_id"));
  if (name === undefined)
    return problem(
      c,
      404,
      "Not there",
      "There is no such passkey. Go back to the account page and reload it.",
    );
  await db.batch([audit(db, owner.account_id, systemClock.now(), "passkey_removed", { name })]);
  return c.redirect("/account", 303);
}
