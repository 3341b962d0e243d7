import type { Command } from "commander";
import { CommandError, type ExitName } from "../exit-codes.ts";
import { printable } from "../relay/failure.ts";
import { isLocked } from "../store/lock.ts";
import { type Context, deviceApi, pairedDevice, refusal } from "./context.ts";
import { machine, newDeviceKey, registerDevice, signInAsOwner } from "./pairing.ts";
import type { RunCommand } from "./program.ts";

interface LoginOptions {
  code?: boolean;
  browser: boolean;
  name?: string;
}

export function addLogin(program: Command, run: RunCommand): void {
  program
    .command("login <url>")
    .description("pair this machine with your account on an endpoint")
    .option("--code", "with an enrolment code from the account page: asked for, or read from standard input")
    .option("--no-browser", "only print the address to open")
    .option("--name <name>", "what the account page calls this machine; its host name otherwise")
    .action((url: string, options: LoginOptions) => run((context) => login(context, url, options)));
  program
    .command("logout")
    .description("take this machine off your account; Graphs and history stay")
    .option("--local", "forget the pairing here even if the server cannot be told")
    .action((options: { local?: boolean }) => run((context) => logout(context, options.local === true)));
}

async function login(context: Context, typed: string, options: LoginOptions): Promise<ExitName> {
  const { store, terminal } = context;
  const serverUrl = endpointOrigin(typed);
  await refuseSecondPairing(context);
  const key = await newDeviceKey();
  const shown = machine(options.name);
  const proof = options.code
    ? { enrolment_code: await readCode(context) }
    : {
        token: await signInAsOwner(
          terminal,
          serverUrl,
          { ...shown, device_thumbprint: key.thumbprint },
          !options.browser,
        ),
      };
  const answer = await registerDevice(serverUrl, key, shown, proof);
  store.device.pair(
    {
      device_id: answer.device_id,
      account_name: answer.account_name,
      server_url: serverUrl,
      name: shown.device_name,
      private_jwk: key.privateJwk,
      paired_at: Date.now(),
    },
    answer.projects,
  );
  terminal.say(`Paired ${shown.device_name} with ${printable(answer.account_name)} on ${serverUrl}.`);
  for (const project of answer.projects)
    terminal.say(`Project ${printable(project.name)} (${project.project_id})`);
  terminal.say("Next: `graph-relay graph add FILE`, `graph-relay share GRAPH`, `graph-relay start`.");
  return "done";
}

/** The endpoint's origin, from any address on it. Keys and codes travel over https, or stay on this machine. */
export function endpointOrigin(typed: string): string {
  const url = URL.parse(typed.includes("://") ? typed : `https://${typed}`);
  const isLocal = ["localhost", "127.0.0.1", "[::1]"].includes(url?.hostname ?? "");
  if (
    url &&
    !url.username &&
    !url.password &&
    (url.protocol === "https:" || (url.protocol === "http:" && isLocal))
  )
    return url.origin;
  throw new CommandError(
    "usage",
    "The endpoint's address must be one such as https://relay.example; http only goes to this machine itself.",
  );
}

/** A pairing that still holds is not thrown away by a second login. */
async function refuseSecondPairing(context: Context): Promise<void> {
  const device = context.store.device.get();
  if (!device) return;
  const answer = await deviceApi(context, device).projects();
  if (!answer.ok && answer.failure.kind === "stop") return;
  throw new CommandError(
    "usage",
    `This machine is paired with ${printable(device.account_name)} on ${device.server_url}. Run \`graph-relay logout\` first, or use another folder with --state.`,
  );
}

/** The enrolment code, never from the command line, where other users could read it. */
async function readCode({ terminal }: Context): Promise<string> {
  const typed =
    process.env.GRAPH_RELAY_ENROLMENT_CODE ??
    (process.stdin.isTTY ? await terminal.ask("Enrolment code: ") : await terminal.readAll());
  const code = typed.trim();
  if (code.length > 0 && code.length <= 64) return code;
  throw new CommandError(
    "usage",
    "An enrolment code is needed: type it in, pipe it in, or set GRAPH_RELAY_ENROLMENT_CODE. Make one on the account page.",
  );
}

async function logout(context: Context, local: boolean): Promise<ExitName> {
  const device = pairedDevice(context);
  const answer = await deviceApi(context, device).removeSelf();
  // A device that is off the account already is what was asked for.
  if (!answer.ok && answer.failure.kind !== "stop" && !local) throw refusal(answer.failure);
  const unsent = context.store.device.unpair(Date.now());
  context.terminal.say(`This machine is no longer paired with ${device.server_url}.`);
  if (!answer.ok && answer.failure.kind !== "stop")
    context.terminal.say("The server could not be told. Remove the device on the account page as well.");
  if (unsent > 0)
    context.terminal.say(
      `${unsent} outcome(s) were not sent. The runs are whole in \`graph-relay history\`.`,
    );
  if (isLocked(context.folder)) context.terminal.say("The relay that still runs ends with its next call.");
  return "done";
}
