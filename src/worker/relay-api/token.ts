import { systemClock } from "../../protocol/ports.ts";
import { RELAY_PATH, tokenRequest } from "../../protocol/relay-api.ts";
import { database } from "../db/client.ts";
import { deviceByThumbprint, touchDevice } from "../db/devices.ts";
import { projectsOfAccount } from "../db/projects.ts";
import { rememberAssertion } from "../db/used-assertions.ts";
import type { Env } from "../env.ts";
import { noStore } from "../oauth/http.ts";
import { issuerOf } from "../oauth/issuer.ts";
import { addressKey, withinLimit } from "../rate-limit.ts";
import { assertionForgottenAt, assertionKeyId, checkAssertion, verifyAssertion } from "./assertion.ts";
import { DEVICE_TOKEN_SECONDS, issueDeviceToken } from "./device-token.ts";
import { readPairingBody } from "./pairing-body.ts";
import { rateLimited, relayError } from "./problem.ts";
import { signingKeys } from "./signing-keys.ts";

/** `POST /token` of the relay API: an assertion, good once, for an access token of a quarter of an hour. */
export async function deviceTokenEndpoint(request: Request, env: Env): Promise<Response> {
  // The key is the caller's own word: one address that names ever new ones is to be stopped too.
  if (!(await withinLimit(env.LIMIT_TOKENS, addressKey(request)))) return rateLimited();
  const now = systemClock.now();
  const body = await readPairingBody(request, tokenRequest);
  if (body instanceof Response) return body;
  const refused = (code: "assertion_invalid" | "assertion_used" | "clock_skew" | "device_removed") =>
    relayError(code, { serverTime: now });

  const db = database(env.DB);
  const keyId = assertionKeyId(body.assertion);
  if (keyId !== undefined && !(await withinLimit(env.LIMIT_ENROLMENT, `key:${keyId}`))) return rateLimited();
  const device = keyId === undefined ? undefined : await deviceByThumbprint(db, keyId);
  if (!device) return refused("assertion_invalid");
  const claims = await verifyAssertion(body.assertion, device.public_jwk);
  if (!claims) return refused("assertion_invalid");
  const issuer = issuerOf(request);
  const check = checkAssertion(claims, {
    deviceId: device.id,
    audience: `${issuer}${RELAY_PATH}/token`,
    now,
  });
  if (check !== "ok") return refused(check === "invalid" ? "assertion_invalid" : check);
  if (device.removed_at !== null) return refused("device_removed");
  if (!(await rememberAssertion(db, device.id, claims.jti, assertionForgottenAt(claims))))
    return refused("assertion_used");

  await touchDevice(db, device.id, now, claims.client_version);
  const projects = await projectsOfAccount(db, device.account_id);
  const access_token = await issueDeviceToken(await signingKeys(env.SIGNING_KEYS), {
    issuer,
    deviceId: device.id,
    accountId: device.account_id,
    projects: projects.map((project) => project.id),
    now,
  });
  return noStore(Response.json({ access_token, token_type: "Bearer", expires_in: DEVICE_TOKEN_SECONDS }));
}
