import { calculateJwkThumbprint } from "jose";
import * as z from "zod";
import { accountId, newId } from "../../protocol/ids.ts";
import { oneTimeCodeHash } from "../../protocol/one-time-code.ts";
import { systemClock, systemRandom } from "../../protocol/ports.ts";
import { type RegisterRequest, type RegisterResponse, registerRequest } from "../../protocol/relay-api.ts";
import { deliverAccess, deliverAccount } from "../access.ts";
import { accountName } from "../db/accounts.ts";
import { audit } from "../db/audit.ts";
import { type Database, database, won } from "../db/client.ts";
import {
  type DeviceRow,
  deviceAddition,
  deviceByThumbprint,
  deviceOfAccount,
  deviceRemoval,
} from "../db/devices.ts";
import { usedOneTimeCode, useOneTimeCode } from "../db/one-time-codes.ts";
import { projectsOfAccount } from "../db/projects.ts";
import type { Env } from "../env.ts";
import { bearerToken } from "../oauth/bearer.ts";
import { noStore } from "../oauth/http.ts";
import { issuerOf, relayResource } from "../oauth/issuer.ts";
import { grantRevocation } from "../oauth/refresh.ts";
import { authorizationServer, oauthEnv } from "../oauth/server.ts";
import { addressKey, withinLimit } from "../rate-limit.ts";
import { displayText } from "../web/forms.ts";
import { authenticateDevice } from "./device-token.ts";
import { readPairingBody } from "./pairing-body.ts";
import { rateLimited, relayError } from "./problem.ts";

const loginProps = z.object({ account_id: accountId, thumbprint: z.string() });

/**
 * `POST /devices`: pairs a laptop, by the login flow's token or by an enrolment code. Asked again with the
 * same key after a lost answer it gives the same device.
 */
export async function registerDevice(request: Request, env: Env): Promise<Response> {
  if (!(await withinLimit(env.LIMIT_ENROLMENT, addressKey(request)))) return rateLimited();
  const body = await readPairingBody(request, registerRequest);
  if (body instanceof Response) return body;
  const db = database(env.DB);
  const thumbprint = await calculateJwkThumbprint(body.public_jwk);
  const known = await deviceByThumbprint(db, thumbprint);
  const account =
    body.enrolment_code === undefined
      ? await accountByLogin(request, env, thumbprint)
      : await accountByCode(db, body.enrolment_code, known);
  if (account instanceof Response) return account;

  const projects = await projectsOfAccount(db, account);
  const name = await accountName(db, account);
  if (name === undefined) return relayError("token_invalid");
  if (known && (known.account_id !== account || known.removed_at !== null))
    return relayError("invalid_request", { detail: "public_jwk: this key was used before. Make a new one" });
  const deviceId = known?.id ?? (await pair(db, account, thumbprint, body));
  await deliverAccess(
    env,
    projects.map((project) => project.id),
  );
  const answer: RegisterResponse = {
    device_id: deviceId,
    account_name: name,
    projects: projects.map((project) => ({ project_id: project.id, name: project.name })),
  };
  return noStore(Response.json(answer, { status: known ? 200 : 201 }));
}

async function pair(
  db: Database,
  account: string,
  thumbprint: string,
  body: RegisterRequest,
): Promise<string> {
  const id = newId("dev", systemRandom);
  const now = systemClock.now();
  const addition = deviceAddition(db, {
    id,
    account_id: account,
    name: body.name,
    platform: body.platform,
    client_version: body.client_version,
    public_jwk: JSON.stringify(body.public_jwk),
    thumbprint,
    created_at: now,
  });
  await db.batch([
    ...addition,
    audit(db, account, now, "device_paired", { name: displayText(body.name), thumbprint }),
  ]);
  return id;
}

/**
 * Whose login token this is. It registers the one key that the owner saw, again after a lost answer; where
 * no key was shown it is used up.
 */
async function accountByLogin(request: Request, env: Env, thumbprint: string): Promise<string | Response> {
  const token = bearerToken(request);
  if (token === undefined) return relayError("token_invalid");
  const issuer = issuerOf(request);
  const context = await authorizationServer(issuer).validateToken(
    relayResource(issuer),
    token,
    oauthEnv(env),
  );
  const props = loginProps.safeParse(context?.props);
  if (!props.success) return relayError("token_invalid");
  const { account_id, thumbprint: shown } = props.data;
  if (shown === "") {
    const [account = "", grant = ""] = token.split(":");
    const [gone] = await env.DB.batch(grantRevocation(env.DB, account, grant));
    if (!gone || !won(gone)) return relayError("token_invalid");
  } else if (shown !== thumbprint) {
    return relayError("invalid_request", { detail: "public_jwk: not the key that was shown to the owner" });
  }
  return account_id;
}

/** Whose enrolment code this is. A device that is paired already may show the code it used. */
async function accountByCode(
  db: Database,
  code: string,
  known: DeviceRow | undefined,
): Promise<string | Response> {
  const now = systemClock.now();
  const hash = await oneTimeCodeHash(code);
  const account = known
    ? await usedOneTimeCode(db, hash, "enrol_device", now)
    : await useOneTimeCode(db, hash, "enrol_device", now);
  return account ?? relayError("enrolment_invalid");
}

/** `DELETE /devices/self`: the laptop takes itself off its account. */
export async function removeSelf(request: Request, env: Env): Promise<Response> {
  const auth = await authenticateDevice(request, env);
  if ("error" in auth) return relayError("token_invalid");
  const db = database(env.DB);
  const device = await deviceOfAccount(db, auth.account_id, auth.device_id);
  if (!device) return relayError("device_removed");
  const now = systemClock.now();
  const detail = { name: displayText(device.name), by: "device" } as const;
  await db.batch([
    ...deviceRemoval(db, device, now),
    audit(db, auth.account_id, now, "device_removed", detail),
  ]);
  await deliverAccount(env, auth.account_id);
  return new Response(null, { status: 204 });
}
