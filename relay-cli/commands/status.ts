import type { Command } from "commander";
import { CommandError, type ExitName } from "../exit-codes.ts";
import { printable } from "../relay/failure.ts";
import type { OutboxItem } from "../store/contract.ts";
import { isLocked } from "../store/lock.ts";
import type { Context } from "./context.ts";
import type { RunCommand } from "./program.ts";

export function addStatus(program: Command, run: RunCommand): void {
  program
    .command("status")
    .description("what this machine shares, what runs, and what could not be sent")
    .option("--json", "as JSON")
    .action((options: { json?: boolean }) => run((context) => status(context, options.json === true)));
  program
    .command("retry [command]")
    .description("send outcomes again that the server refused; without an id, all of them")
    .option("--discard", "forget them instead; the history keeps the runs")
    .action((command: string | undefined, options: { discard?: boolean }) =>
      run((context) => retry(context, command, options.discard === true)),
    );
}

/** All that `status` tells. Nothing secret is in it. */
function statusOf(context: Context) {
  const { store } = context;
  const device = store.device.get();
  const unsent = ({ command_id, completion, last_failure }: OutboxItem) => ({
    command_id,
    execution_id: completion.execution_id,
    status: completion.status,
    last_failure,
  });
  return {
    state_folder: context.folder,
    relay_running: isLocked(context.folder),
    device: device
      ? {
          device_id: device.device_id,
          name: device.name,
          account: device.account_name,
          server: device.server_url,
        }
      : null,
    projects: store.projects.list().map((project) => ({
      project_id: project.project_id,
      name: project.name,
      enabled: project.enabled,
      shared: store.projects.shared(project.project_id).map((graph) => graph.slug),
      problem: project.problem,
    })),
    running: store.attempts.inState("started").map(({ command_id, execution_id, slug, agent_name }) => ({
      command_id,
      execution_id,
      graph: slug,
      agent: agent_name,
    })),
    unsent: store.outbox.pending().map(unsent),
    dead_letters: store.outbox.deadLetters().map((letter) => ({ ...unsent(letter), reason: letter.reason })),
  };
}

async function status(context: Context, json: boolean): Promise<ExitName> {
  const { terminal } = context;
  const now = statusOf(context);
  if (json) {
    terminal.json(now);
    return "done";
  }
  const { device } = now;
  terminal.data(
    device
      ? `Paired as ${printable(device.name)} (${device.device_id}) with ${printable(device.account)} on ${device.server}`
      : "Not paired. Run `graph-relay login URL`.",
  );
  terminal.data(
    now.relay_running ? "The relay is running." : "The relay is not running: `graph-relay start`.",
  );
  for (const project of now.projects) {
    const shared = project.shared.length > 0 ? `shares ${project.shared.join(", ")}` : "shares nothing";
    const state = project.enabled ? shared : "disabled";
    terminal.data(
      `Project ${printable(project.name)} (${project.project_id}): ${state}${project.problem ? `. ${project.problem}` : ""}`,
    );
  }
  for (const run of now.running)
    terminal.data(`Running ${printable(run.graph)} for ${printable(run.agent)} (command ${run.command_id})`);
  for (const item of now.unsent)
    terminal.data(
      `Not sent yet: ${item.status}, command ${item.command_id}${item.last_failure ? `. ${item.last_failure}` : ""}`,
    );
  for (const letter of now.dead_letters)
    terminal.data(
      `Refused by the server: ${letter.status}, command ${letter.command_id}. ${letter.reason} Execution ${letter.execution_id} is in the history.`,
    );
  return "done";
}

async function retry(context: Context, command: string | undefined, discard: boolean): Promise<ExitName> {
  const { store, terminal } = context;
  const letters = store.outbox
    .deadLetters()
    .filter((letter) => command === undefined || letter.command_id === command);
  if (command !== undefined && letters.length === 0)
    throw new CommandError("usage", `No refused outcome is of the command ${printable(command)}.`);
  for (const { command_id } of letters)
    if (discard) store.outbox.discard(command_id);
    else store.outbox.revive(command_id);
  if (!discard && letters.length > 0) store.projects.bumpSharingVersion();
  terminal.say(`${letters.length} outcome(s) ${discard ? "forgotten" : "will be sent again"}.`);
  return "done";
}
