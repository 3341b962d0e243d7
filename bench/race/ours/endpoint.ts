import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { importJWK, type JWK, SignJWT } from "jose";
import * as oauth from "oauth4webapi";
import {
  type EndpointPlace,
  type LocalEndpoint,
  prepareEndpoint,
  startEndpoint,
} from "../../../scripts/lib/local-endpoint.ts";
import { OwnerBrowser } from "../../../scripts/lib/owner-browser.ts";
import { ownerLink } from "../../../scripts/lib/owner-link.ts";
import { DEFAULT_SETTINGS } from "../../../src/protocol/limits.ts";
import { systemClock, systemRandom } from "../../../src/protocol/ports.ts";
import { RELAY_PATH } from "../../../src/protocol/relay-api.ts";
import { freePort } from "../servers.ts";

export const ROOT = resolve(import.meta.dirname, "../../..");
const REDIRECT = "http://127.0.0.1:4711/callback";

/** The endpoint as `npm start` runs it, with one project, its devices and two agents. */
export interface RacingEndpoint {
  readonly projectId: string;
  /** Access tokens of two agents of the project. */
  readonly agentTokens: readonly [string, string];
  /** The first of the two agents. */
  readonly agentId: string;
  readonly pid: number;
  /** A fresh access token of a device. */
  deviceToken(device_id: string): Promise<string>;
  /** Stops it, lets `change` have the project's database to itself, and starts it again. */
  whileStopped(change: (objectFile: string) => void): Promise<void>;
  /** Starts it again with a debugger, and answers its address. */
  withDebugger(): Promise<string>;
  stop(): Promise<void>;
}

/** Starts it over a folder of its own, with `devices` paired devices. */
export async function startRacingEndpoint(
  state: string,
  port: number,
  devices: string[],
): Promise<RacingEndpoint> {
  const place: EndpointPlace = { root: ROOT, state, port };
  await prepareEndpoint(place);
  const link = await ownerLink({ name: "Racer" }, { clock: systemClock, random: systemRandom });
  const objects = join(state, "databases", "v3");
  const accounts = databaseWith(join(objects, "d1"), "accounts");
  const projectId = addDevices(accounts, link.sql, devices);
  let running: LocalEndpoint = await startEndpoint(place);
  const connect = async () => {
    const owner = new OwnerBrowser(running.url);
    await owner.signIn(link.code);
    return {
      agentTokens: [
        await connectAgent(running.url, owner, "Racer"),
        await connectAgent(running.url, owner, "Other racer"),
      ] as const,
      agentId: read(accounts, "select id from agents order by created_at, rowid limit 1"),
      deviceToken: await signer(state, running.url, link.account_id, projectId),
    };
  };
  const connected = await connect().catch(async (error: unknown) => {
    await running.stop();
    throw error;
  });
  return {
    projectId,
    ...connected,
    async withDebugger() {
      const inspectorPort = await freePort();
      await running.stop();
      running = await startEndpoint(place, { inspectorPort });
      return `ws://127.0.0.1:${inspectorPort}/ws`;
    },
    get pid() {
      return running.process.pid ?? 0;
    },
    async whileStopped(change) {
      await running.stop();
      change(databaseWith(join(objects, "do"), "commands"));
      running = await startEndpoint(place);
    },
    stop: () => running.stop(),
  };
}

/** Applies the owner's statements, raises the caps on queued runs, and pairs devices without keys: they get their tokens here. */
function addDevices(file: string, statements: readonly string[], devices: readonly string[]): string {
  const database = new DatabaseSync(file);
  database.exec(`${statements.join(";\n")};`);
  const settings = { ...DEFAULT_SETTINGS, max_queued_per_project: 1_000, max_queued_per_agent: 1_000 };
  const project = database
    .prepare("update projects set settings = ? returning id, account_id")
    .get(JSON.stringify(settings));
  const add = database.prepare(`
    insert into devices (id, account_id, name, platform, client_version, public_jwk, thumbprint, created_at)
    values (?, ?, 'Racer', 'bench', '0.1.0', '{}', ?, 0)`);
  for (const id of devices) add.run(id, project?.account_id ?? null, id);
  database.close();
  return String(project?.id);
}

/** Registers a client and lets the owner allow it: the access token. */
async function connectAgent(origin: string, owner: OwnerBrowser, client_name: string): Promise<string> {
  const post = async (path: string, type: string, body: string) => {
    const response = await fetch(origin + path, { method: "POST", headers: { "content-type": type }, body });
    if (!response.ok) throw new Error(`${path} answered ${response.status}: ${await response.text()}`);
    return (await response.json()) as { client_id: string; access_token: string };
  };
  const metadata = { client_name, redirect_uris: [REDIRECT], token_endpoint_auth_method: "none" };
  const { client_id } = await post("/register", "application/json", JSON.stringify(metadata));
  const verifier = oauth.generateRandomCodeVerifier();
  const asked = new URLSearchParams({
    response_type: "code",
    client_id,
    redirect_uri: REDIRECT,
    scope: "osfoundry:read osfoundry:run",
    state: "race",
    code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
    code_challenge_method: "S256",
    resource: `${origin}/mcp`,
  });
  const redirect = new URL(await owner.approve(`${origin}/authorize?${asked}`));
  const grant = new URLSearchParams({
    grant_type: "authorization_code",
    client_id,
    code: redirect.searchParams.get("code") ?? "",
    redirect_uri: REDIRECT,
    code_verifier: verifier,
    resource: `${origin}/mcp`,
  });
  return (await post("/token", "application/x-www-form-urlencoded", String(grant))).access_token;
}

/** Signs devices' tokens as the endpoint does, with its own key. */
async function signer(state: string, issuer: string, account_id: string, project: string) {
  const text = readFileSync(join(state, "signing-keys.json"), "utf8");
  const { keys } = JSON.parse(text) as { keys: JWK[] };
  const [jwk] = keys;
  if (!jwk?.kid) throw new Error("the endpoint has no signing key");
  const { kid } = jwk;
  const key = await importJWK(jwk, "ES256");
  return (device_id: string): Promise<string> =>
    new SignJWT({ account_id, projects: [project] })
      .setProtectedHeader({ alg: "ES256", typ: "at+jwt", kid })
      .setIssuer(issuer)
      .setAudience(issuer + RELAY_PATH)
      .setSubject(device_id)
      .setIssuedAt()
      .setExpirationTime("15 minutes")
      .sign(key);
}

/** The file below `folder` that holds this table. */
function databaseWith(folder: string, table: string): string {
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".sqlite"))
    .map((name) => join(folder, name));
  const found = files.find(
    (file) => read(file, `select count(*) from sqlite_master where name = '${table}'`) === "1",
  );
  if (!found) throw new Error(`No database below ${folder} has a table ${table}.`);
  return found;
}

/** The one value a query answers with. */
function read(file: string, query: string): string {
  const database = new DatabaseSync(file, { readOnly: true });
  const row = database.prepare(query).get();
  database.close();
  return String(Object.values(row ?? {})[0]);
}
