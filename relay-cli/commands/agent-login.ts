import { hostname } from "node:os";
import type {
  OAuthClientProvider,
  StoredOAuthClientInformation,
  StoredOAuthTokens,
} from "@modelcontextprotocol/client";
import { CommandError } from "../exit-codes.ts";
import { printable } from "../relay/failure.ts";
import type { CallStore } from "../store/contract.ts";
import { showPage } from "./browser.ts";
import { openLoopback } from "./loopback.ts";
import type { Terminal } from "./terminal.ts";

const CALLBACK_PATH = "/callback";
/** Any port of the loopback address counts as this one (RFC 8252 section 7.3). */
const REGISTERED_REDIRECT = `http://127.0.0.1${CALLBACK_PATH}`;

/** The sign-in is needed, and can only be made with the person. */
class SignInNeeded extends Error {}

export interface AgentLoginPorts {
  terminal: Terminal;
  calls: CallStore;
  serverUrl: string;
}

/**
 * The sign-in that `call` keeps, as an agent of its own, beside the pairing of this machine. Tokens live in
 * the state file, read anew each time: several processes may use and renew them.
 */
function agentProvider(
  { calls, serverUrl }: AgentLoginPorts,
  flow?: { redirectUrl: string; state: string; show(url: URL): void },
): OAuthClientProvider {
  let verifier = "";
  let lastTokens: string | null = null;
  // A sign-in registers anew: the endpoint forgets clients in time, and answers with the one it still knows.
  let isRegistered = flow === undefined;
  return {
    redirectUrl: flow?.redirectUrl ?? REGISTERED_REDIRECT,
    clientMetadata: {
      client_name: `graph-relay on ${printable(hostname())}`,
      redirect_uris: [REGISTERED_REDIRECT],
      grant_types: ["authorization_code", "refresh_token"],
      response_types: ["code"],
      token_endpoint_auth_method: "none",
    },
    ...(flow ? { state: () => flow.state } : {}),
    clientInformation() {
      const { client } = calls.login(serverUrl);
      return client === null || !isRegistered
        ? undefined
        : (JSON.parse(client) as StoredOAuthClientInformation);
    },
    saveClientInformation(client) {
      calls.saveLogin(serverUrl, { client: JSON.stringify(client) });
      isRegistered = true;
    },
    tokens() {
      lastTokens = calls.login(serverUrl).tokens;
      return lastTokens === null ? undefined : (JSON.parse(lastTokens) as StoredOAuthTokens);
    },
    saveTokens: (tokens) => calls.saveLogin(serverUrl, { tokens: JSON.stringify(tokens) }),
    redirectToAuthorization(url) {
      if (!flow) throw new SignInNeeded();
      flow.show(url);
    },
    saveCodeVerifier(value) {
      verifier = value;
    },
    codeVerifier: () => verifier,
    invalidateCredentials(scope) {
      if (scope === "all" || scope === "client") isRegistered = false;
      // A sibling may have stored newer tokens since these were read: those stay.
      if ((scope === "all" || scope === "tokens") && lastTokens !== null)
        calls.dropTokens(serverUrl, lastTokens);
    },
  };
}

/** Runs `body` as a signed-in agent; signs in through the browser first if that is needed. */
export async function asAgent<T>(
  ports: AgentLoginPorts,
  noBrowser: boolean,
  body: (provider: OAuthClientProvider) => Promise<T>,
): Promise<T> {
  if (ports.calls.login(ports.serverUrl).tokens !== null) {
    try {
      return await body(agentProvider(ports));
    } catch (error) {
      if (!(error instanceof SignInNeeded)) throw error;
      ports.terminal.say("The sign-in has ended. Signing in again.");
    }
  }
  await signIn(ports, noBrowser);
  return body(agentProvider(ports));
}

async function signIn(ports: AgentLoginPorts, noBrowser: boolean): Promise<void> {
  const { auth } = await import("@modelcontextprotocol/client");
  const loopback = await openLoopback(CALLBACK_PATH);
  try {
    const state = crypto.randomUUID();
    const answer = loopback.answer(state);
    const provider = agentProvider(ports, {
      redirectUrl: loopback.redirectUrl,
      state,
      show: (url) => showPage(ports.terminal, "Signing in as an agent", url, noBrowser),
    });
    const serverUrl = `${ports.serverUrl}/mcp`;
    if ((await auth(provider, { serverUrl })) === "AUTHORIZED") return;
    const params = await answer;
    const authorizationCode = params.get("code");
    if (authorizationCode === null)
      throw new CommandError("failed", "The agent was not allowed in the browser.");
    const iss = params.get("iss");
    await auth(provider, { serverUrl, authorizationCode, ...(iss === null ? {} : { iss }) });
  } finally {
    loopback.close();
  }
}
