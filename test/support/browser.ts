import { existsSync } from "node:fs";
import { platform } from "node:os";
import { join } from "node:path";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import { run } from "../../scripts/lib/processes.ts";

/** Where Chrome and Chromium are put, by platform. */
const USUAL: Partial<Record<NodeJS.Platform, readonly string[]>> = {
  linux: [
    "/usr/bin/chromium",
    "/usr/bin/chromium-browser",
    "/usr/bin/google-chrome",
    "/usr/bin/google-chrome-stable",
    "/opt/google/chrome/chrome",
    "/snap/bin/chromium",
  ],
  darwin: [
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
  ],
  win32: ["PROGRAMFILES", "PROGRAMFILES(X86)", "LOCALAPPDATA"].map((name) =>
    join(process.env[name] ?? "", "Google\\Chrome\\Application\\chrome.exe"),
  ),
};

/** Without these a browser of Debian's asks hosts outside for updates, and refuses to run as root. */
const ARGUMENTS = [
  "--no-first-run",
  "--no-default-browser-check",
  "--disable-gpu",
  "--disable-quic",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];
const isRoot = process.getuid?.() === 0;

/** A browser for the tests: its program, or why there is none. */
type FoundBrowser = { program: string } | { missing: string };

/** Finds Chrome or Chromium: `CHROME_PATH`, the usual places, or Debian's package, installed where that may be done. */
export async function findBrowser(): Promise<FoundBrowser> {
  const named = process.env.CHROME_PATH;
  if (named !== undefined)
    return existsSync(named)
      ? { program: named }
      : { missing: `CHROME_PATH names ${named}, which is not there` };
  const there = () => (USUAL[platform()] ?? []).find((path) => existsSync(path));
  const found = there() ?? (await installed(there));
  return found === undefined
    ? { missing: "no Chrome or Chromium is here, nor could Debian's be installed. Set CHROME_PATH to one" }
    : { program: found };
}

/** Debian's Chromium, where this is Debian and we are root. Takes a minute. */
async function installed(there: () => string | undefined): Promise<string | undefined> {
  if (!isRoot || !existsSync("/usr/bin/apt-get")) return undefined;
  const apt = (...words: string[]) =>
    run("apt-get", ["-qq", ...words], {
      env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
      timeout: 300_000,
    });
  try {
    console.log("Installing Debian's Chromium for the browser tests …");
    await apt("update");
    await apt("install", "--yes", "--no-install-recommends", "chromium", "fonts-dejavu-core");
  } catch (error) {
    console.error(String(error));
  }
  return there();
}

export const launchBrowser = (program: string): Promise<Browser> =>
  chromium.launch({
    executablePath: program,
    args: isRoot ? [...ARGUMENTS, "--no-sandbox"] : ARGUMENTS,
  });

/** A person's browser: one page, with cookies and a device for passkeys of its own. */
export interface Person {
  readonly context: BrowserContext;
  readonly page: Page;
  /** A phone or laptop with a screen lock that its person opens at once. `lose` takes it away with its passkeys. */
  addAuthenticator(): Promise<{ lose(): Promise<void> }>;
  close(): Promise<void>;
}

export const PHONE = { width: 360, height: 740 };

export async function newPerson(browser: Browser, options: { phone?: boolean } = {}): Promise<Person> {
  const context = await browser.newContext(options.phone ? { viewport: PHONE } : {});
  context.setDefaultTimeout(30_000);
  const page = await context.newPage();
  const devtools = await context.newCDPSession(page);
  await devtools.send("WebAuthn.enable");
  return {
    context,
    page,
    async addAuthenticator() {
      const { authenticatorId } = await devtools.send("WebAuthn.addVirtualAuthenticator", {
        options: {
          protocol: "ctap2",
          transport: "internal",
          hasResidentKey: true,
          hasUserVerification: true,
          isUserVerified: true,
          automaticPresenceSimulation: true,
        },
      });
      return {
        lose: async () => {
          await devtools.send("WebAuthn.removeVirtualAuthenticator", { authenticatorId });
        },
      };
    },
    close: () => context.close(),
  };
}

/** Signs in by a one-time link, as the person who got it does. */
export async function openLink(page: Page, url: string, code: string): Promise<void> {
  await page.goto(`${url}/sign-in#${code}`);
  await page.getByRole("button", { name: "Sign in with the code" }).click();
  await page.waitForURL("**/account");
}
