import { spawn } from "node:child_process";
import { CommandError } from "../exit-codes.ts";
import type { Terminal } from "./terminal.ts";

/**
 * Sends the person's browser to a page. The address is printed in any case; with `--no-browser` that is
 * all, for a person with another browser or a program in their place. Without anybody to look, and without
 * that flag, nothing is begun that would wait for nobody.
 */
export function showPage(terminal: Terminal, what: string, url: URL, noBrowser: boolean): void {
  if (!noBrowser && !terminal.interactive)
    throw new CommandError(
      "not_paired",
      `${what} needs a browser, and nobody is at this terminal. Run it in a terminal, or with --no-browser to open the printed address yourself.`,
    );
  terminal.say(`${what}: open this address in a browser\n${url.href}`);
  if (!noBrowser) openBrowser(url);
}

/** Starts the platform's opener. That there is none is no failure: the address is on the screen. */
function openBrowser(url: URL): void {
  const [command, ...args] = OPENERS[process.platform] ?? ["xdg-open"];
  if (command === undefined) return;
  spawn(command, [...args, url.href], { stdio: "ignore", detached: true })
    .on("error", () => {})
    .unref();
}

const OPENERS: Partial<Record<NodeJS.Platform, readonly string[]>> = {
  darwin: ["open"],
  win32: ["rundll32", "url.dll,FileProtocolHandler"],
};
