import * as z from "zod";
import { LIMITS } from "../../protocol/limits.ts";
import { systemClock, systemRandom } from "../../protocol/ports.ts";
import { deliverAccess } from "../access.ts";
import { accountInsert, accountName, newAccountId } from "../db/accounts.ts";
import { audit } from "../db/audit.ts";
import { database } from "../db/client.ts";
import { accountOfIdentity, identityInsert, identityRemoval } from "../db/identities.ts";
import { issuerOf } from "../oauth/issuer.ts";
import { badForm, signInAgain } from "./answers.ts";
import { beginChallenge, endChallenge } from "./challenges.ts";
import { displayText, readForm, returnPath, text } from "./forms.ts";
import { problem } from "./layout.ts";
import { finishLogin, loginAddress, type Provider, ProviderError, providerOf } from "./provider.ts";
import { isFresh, newSecret, type Owner, startSession, type WebContext } from "./session.ts";
import { signUpMode } from "./sign-up.ts";

const CALLBACK = "/sign-in/provider/callback";
const remembered = z.object({ nonce: z.string(), verifier: z.string(), returnTo: z.string() });
const fetcher: typeof fetch = (input, init) => fetch(input, init);

/** `POST /sign-in/provider`: off to the operator's provider. */
export async function providerSignIn(c: WebContext) {
  const form = await readForm(c);
  return form ? begin(c, returnPath(text(form, "return_to"), issuerOf(c.req.raw))) : badForm(c);
}

/** `POST /account/provider`: the same, to link this account. */
export const linkProvider = (c: WebContext, owner: Owner) =>
  isFresh(owner) ? begin(c, "/account", owner.account_id) : signInAgain(c);

/** `POST /account/provider/remove`. */
export async function unlinkProvider(c: WebContext, owner: Owner, form: FormData) {
  if (!isFresh(owner)) return signInAgain(c);
  const db = database(c.env.DB);
  const issuer = text(form, "issuer");
  await db.batch([
    identityRemoval(db, owner.account_id, issuer),
    audit(db, owner.account_id, systemClock.now(), "provider_unlinked", { issuer: displayText(issuer) }),
  ]);
  return c.redirect("/account", 303);
}

async function begin(c: WebContext, returnTo: string, accountId?: string) {
  const provider = providerOf(c.env);
  if (!provider) return problem(c, 404, "Not there", "This endpoint has no identity provider.");
  const login = { state: newSecret(), nonce: newSecret(), verifier: newSecret() };
  try {
    const to = await loginAddress(provider, login, issuerOf(c.req.raw) + CALLBACK, fetcher);
    await beginChallenge(c, "provider", login.state, {
      ...(accountId === undefined ? {} : { accountId }),
      value: { nonce: login.nonce, verifier: login.verifier, returnTo },
    });
    return c.redirect(to, 303);
  } catch (error) {
    return failed(c, error);
  }
}

/** `GET /sign-in/provider/callback`: back from it, in the browser that went. */
export async function providerCallback(c: WebContext) {
  const provider = providerOf(c.env);
  const answer = new URL(c.req.url).searchParams;
  const state = answer.get("state") ?? "";
  const begun = provider && state ? await endChallenge(c, "provider", state) : undefined;
  if (!provider || !begun)
    return problem(
      c,
      400,
      "Sign-in not accepted",
      "This sign-in was not begun in this browser, or too long ago. Begin again.",
    );
  const { nonce, verifier, returnTo } = remembered.parse(begun.value);
  try {
    const ports = { fetcher, clock: systemClock };
    const login = { state, nonce, verifier };
    const person = await finishLogin(provider, login, answer, issuerOf(c.req.raw) + CALLBACK, ports);
    return begun.accountId === null
      ? await enter(c, provider, person, returnTo)
      : await link(c, provider, person.subject, begun.accountId);
  } catch (error) {
    return failed(c, error);
  }
}

async function enter(
  c: WebContext,
  provider: Provider,
  person: { subject: string; name: string | undefined },
  returnTo: string,
) {
  const db = database(c.env.DB);
  const now = systemClock.now();
  const known = await accountOfIdentity(db, provider.issuer, person.subject);
  if (known !== undefined) {
    if ((await accountName(db, known)) === undefined)
      throw new ProviderError("The account is being deleted.");
    await db.batch([audit(db, known, now, "signed_in", { how: "provider" })]);
    await startSession(c, known);
    return c.redirect(returnTo, 303);
  }
  if (signUpMode(c.env) !== "open")
    throw new ProviderError(
      "No account here belongs to you there. Sign in another way and link the provider on the account page, or ask the operator for an invitation.",
    );
  const id = newAccountId(systemRandom);
  const name = displayText(person.name ?? "", LIMITS.nameCharacters) || "Owner";
  const account = accountInsert(db, { id, name, now }, systemRandom);
  await db.batch([
    ...account.statements,
    identityInsert(db, { issuer: provider.issuer, subject: person.subject, account_id: id, created_at: now }),
    audit(db, id, now, "signed_up", { how: "provider" }),
  ]);
  await deliverAccess(c.env, [account.projectId]);
  await startSession(c, id);
  return c.redirect(returnTo, 303);
}

/** Links who came back to the account that began it, if it is signed in here still. */
async function link(c: WebContext, { issuer }: Provider, subject: string, accountId: string) {
  if (c.get("owner")?.account_id !== accountId)
    throw new ProviderError("You are signed in with another account now.");
  const db = database(c.env.DB);
  const now = systemClock.now();
  const known = await accountOfIdentity(db, issuer, subject);
  if (known !== undefined && known !== accountId)
    throw new ProviderError("Another account is linked to you there.");
  if (known === undefined)
    await db.batch([
      identityInsert(db, { issuer, subject, account_id: accountId, created_at: now }),
      audit(db, accountId, now, "provider_linked", { issuer }),
    ]);
  return c.redirect("/account", 303);
}

function failed(c: WebContext, error: unknown) {
  if (!(error instanceof ProviderError)) throw error;
  return problem(c, 400, "Sign-in not accepted", error.message);
}
