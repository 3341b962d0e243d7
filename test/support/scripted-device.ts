import { randomUUID } from "node:crypto";
import { calculateJwkThumbprint, exportJWK, generateKeyPair, SignJWT } from "jose";
import {
  RELAY_PATH,
  type RegisterResponse,
  type SessionMetadata,
  type SyncResponse,
  sessionsDigest,
} from "../../src/protocol/relay-api.ts";
import type { TestEndpoint } from "./endpoint.ts";

/** A laptop without a relay: it makes the relay API's calls, each when the test says so. */
export class ScriptedDevice {
  readonly #base: string;
  readonly #token: string;
  /** The first project of the account. */
  readonly projectId: string;

  private constructor(base: string, token: string, projectId: string) {
    this.#base = base;
    this.#token = token;
    this.projectId = projectId;
  }

  /** Pairs a new device by an enrolment code of the owner's, and gets it a token. */
  static async pair(endpoint: TestEndpoint): Promise<ScriptedDevice> {
    const base = `${endpoint.url}${RELAY_PATH}`;
    const { publicKey, privateKey } = await generateKeyPair("ES256");
    const { kty, crv, x, y } = await exportJWK(publicKey);
    const public_jwk = { kty, crv, x, y };
    const registered = await send<RegisterResponse>(`${base}/devices`, {
      name: "Laptop",
      platform: "linux",
      client_version: "0.1.0",
      public_jwk,
      enrolment_code: await endpoint.owner.enrolmentCode(),
    });
    const assertion = await new SignJWT()
      .setProtectedHeader({
        alg: "ES256",
        kid: await calculateJwkThumbprint({ kty: "EC", crv, x, y } as object),
      })
      .setIssuer(registered.device_id)
      .setSubject(registered.device_id)
      .setAudience(`${base}/token`)
      .setIssuedAt()
      .setExpirationTime("60s")
      .setJti(randomUUID())
      .sign(privateKey);
    const { access_token } = await send<{ access_token: string }>(`${base}/token`, {
      grant_type: "urn:ietf:params:oauth:grant-type:jwt-bearer",
      assertion,
    });
    const [project] = registered.projects;
    if (!project) throw new Error("The account has no project");
    return new ScriptedDevice(base, access_token, project.project_id);
  }

  /** A pass that tells the whole set. */
  async sync(sessions: readonly SessionMetadata[]): Promise<SyncResponse> {
    return this.#call("/sync", {
      project_id: this.projectId,
      sessions_digest: await sessionsDigest(sessions),
      sessions,
      client_version: "0.1.0",
    });
  }

  /** Runs one command to its end with this result. */
  async finish(commandId: string, result: unknown): Promise<void> {
    const attempt_id = randomUUID();
    await this.#call(`/commands/${commandId}/start`, { attempt_id });
    await this.#call(`/commands/${commandId}/complete`, {
      attempt_id,
      execution_id: randomUUID(),
      status: "completed",
      result,
    });
  }

  #call<T>(path: string, body: unknown): Promise<T> {
    return send<T>(`${this.#base}${path}`, body, this.#token);
  }
}

async function send<T>(url: string, body: unknown, token?: string): Promise<T> {
  const response = await fetch(url, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`${url} answered ${response.status}: ${await response.text()}`);
  return response.json() as Promise<T>;
}
