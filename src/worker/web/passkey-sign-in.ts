import { systemClock } from "../../protocol/ports.ts";
import { accountName } from "../db/accounts.ts";
import { audit } from "../db/audit.ts";
import { database } from "../db/client.ts";
import { passkeyById, passkeyUse } from "../db/passkeys.ts";
import { issuerOf } from "../oauth/issuer.ts";
import { withinLimit } from "../rate-limit.ts";
import { badForm, formError, tooMany } from "./answers.ts";
import { beginChallenge, endChallenge } from "./challenges.ts";
import { readForm, returnPath, text } from "./forms.ts";
import { challengeOf, provenCounter, readCredential, requestOptions } from "./passkeys.ts";
import { startSession, type WebContext } from "./session.ts";
import { signInForm } from "./sign-in.ts";

const REFUSED = "This passkey was not accepted. Try again, or ask the operator for a one-time link.";

/** `POST /sign-in/passkey/options`: a challenge for this browser. */
export async function passkeySignInOptions(c: WebContext) {
  if (!(await readForm(c))) return formError(c, 403);
  const options = await requestOptions(issuerOf(c.req.raw));
  await beginChallenge(c, "passkey_sign_in", options.challenge);
  return c.json(options);
}

/** `POST /sign-in/passkey`: the passkey's answer for a session. */
export async function passkeySignIn(c: WebContext) {
  const form = await readForm(c);
  if (!form) return badForm(c);
  const returnTo = text(form, "return_to");
  const refused = () => signInForm(c, returnTo, REFUSED);
  const answer = readCredential(text(form, "credential"));
  const challenge = answer && challengeOf(answer);
  if (!answer || !challenge || !(await endChallenge(c, "passkey_sign_in", challenge))) return refused();

  const db = database(c.env.DB);
  const passkey = await passkeyById(db, answer.id);
  if (!passkey) return refused();
  if (!(await withinLimit(c.env.LIMIT_SIGN_IN, `account:${passkey.account_id}`))) return tooMany(c);
  const issuer = issuerOf(c.req.raw);
  const counter = await provenCounter(answer, challenge, issuer, passkey);
  if (counter === undefined || (await accountName(db, passkey.account_id)) === undefined) return refused();
  const now = systemClock.now();
  await db.batch([
    passkeyUse(db, passkey.credential_id, counter, now),
    audit(db, passkey.account_id, now, "signed_in", { how: "passkey" }),
  ]);
  await startSession(c, passkey.account_id);
  return c.redirect(returnPath(returnTo, issuer), 303);
}
