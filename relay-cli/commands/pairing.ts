import { hostname, platform } from "node:os";
import { cutText } from "../../src/protocol/completion.ts";
import { LIMITS } from "../../src/protocol/limits.ts";
import { systemRandom } from "../../src/protocol/ports.ts";
import {
  LOGIN_CLIENT,
  type PublicJwk,
  publicJwk,
  RELAY_PATH,
  type RegisterRequest,
  type RegisterResponse,
  registerResponse,
} from "../../src/protocol/relay-api.ts";
import { CommandError } from "../exit-codes.ts";
import { createBackoff } from "../relay/backoff.ts";
import { printable } from "../relay/failure.ts";
import { exchange } from "../relay/http.ts";
import { systemClock, systemTransport } from "../relay/system.ts";
import { VERSION } from "../version.ts";
import { showPage } from "./browser.ts";
import { refusal } from "./context.ts";
import { openLoopback } from "./loopback.ts";
import type { Terminal } from "./terminal.ts";

const REGISTER_DEADLINE_MS = 20_000;
const REGISTER_TRIES = 4;

/** A new device's key pair. */
export interface DeviceKey {
  privateJwk: string;
  publicJwk: PublicJwk;
  /** RFC 7638, shown to the owner on the consent page. */
  thumbprint: string;
}

export async function newDeviceKey(): Promise<DeviceKey> {
  const { calculateJwkThumbprint, exportJWK, generateKeyPair } = await import("jose");
  const pair = await generateKeyPair("ES256", { extractable: true });
  const open = publicJwk.parse(await exportJWK(pair.publicKey));
  return {
    privateJwk: JSON.stringify(await exportJWK(pair.privateKey)),
    publicJwk: open,
    thumbprint: await calculateJwkThumbprint(open),
  };
}

/** What the owner sees of this machine. */
export const machine = (name: string | undefined) => ({
  device_name: cutText(printable(name ?? hostname()).trim() || "laptop", LIMITS.nameCharacters),
  device_platform: `${platform()} ${process.arch}`.slice(0, 40),
});

/** Signs the owner in through the browser: a token that is good for registering this machine once. */
export async function signInAsOwner(
  terminal: Terminal,
  serverUrl: string,
  shown: ReturnType<typeof machine> & { device_thumbprint: string },
  noBrowser: boolean,
): Promise<string> {
  const oauth = await import("@modelcontextprotocol/client");
  const metadata = await oauth.discoverAuthorizationServerMetadata(serverUrl).catch((error: unknown) => {
    throw new CommandError("unreachable", `${serverUrl} cannot be reached: ${printable(String(error))}`);
  });
  if (!metadata) throw new CommandError("unreachable", `${serverUrl} is not a Graph Relay endpoint.`);
  const clientInformation = { client_id: LOGIN_CLIENT.client_id };
  const loopback = await openLoopback(LOGIN_CLIENT.redirect_path);
  try {
    const state = crypto.randomUUID();
    const { authorizationUrl, codeVerifier } = await oauth.startAuthorization(serverUrl, {
      metadata,
      clientInformation,
      redirectUrl: loopback.redirectUrl,
      scope: LOGIN_CLIENT.scope,
      state,
    });
    for (const [key, value] of Object.entries(shown)) authorizationUrl.searchParams.set(key, value);
    const answer = loopback.answer(state);
    terminal.say(`This machine's key fingerprint: ${shown.device_thumbprint}`);
    showPage(terminal, "Pairing", authorizationUrl, noBrowser);
    const params = await answer;
    const code = params.get("code");
    if (code === null) throw new CommandError("failed", "The pairing was not allowed in the browser.");
    const iss = params.get("iss");
    const tokens = await oauth.exchangeAuthorization(serverUrl, {
      metadata,
      clientInformation,
      authorizationCode: code,
      codeVerifier,
      redirectUri: loopback.redirectUrl,
      ...(iss === null ? {} : { iss }),
    });
    return tokens.access_token;
  } finally {
    loopback.close();
  }
}

/** Registers this machine's public key. A lost answer is asked for again: the same key is the same device. */
export async function registerDevice(
  serverUrl: string,
  key: DeviceKey,
  shown: ReturnType<typeof machine>,
  proof: { token: string } | { enrolment_code: string },
): Promise<RegisterResponse> {
  const body: RegisterRequest = {
    name: shown.device_name,
    platform: shown.device_platform,
    client_version: VERSION,
    public_jwk: key.publicJwk,
    ...("enrolment_code" in proof ? proof : {}),
  };
  const backoff = createBackoff(systemRandom);
  for (let tries = 1; ; tries++) {
    const answer = await exchange(
      { clock: systemClock, transport: systemTransport },
      {
        method: "POST",
        url: `${serverUrl}${RELAY_PATH}/devices`,
        body,
        answer: registerResponse,
        deadlineMs: REGISTER_DEADLINE_MS,
        ...("token" in proof ? { token: proof.token } : {}),
      },
    );
    if (answer.ok) return answer.value;
    const { failure } = answer;
    if (failure.code === "enrolment_invalid") throw new CommandError("failed", failure.text);
    if (failure.kind !== "retry" || tries === REGISTER_TRIES) throw refusal(failure);
    await systemClock.sleep(backoff.failed(systemClock.monotonic(), failure.retryAfterMs));
  }
}
