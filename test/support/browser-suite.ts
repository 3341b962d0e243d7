import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, it } from "vitest";
import { findBrowser, launchBrowser } from "./browser.ts";

/** Tests that need a browser. On a machine without one, a test of that name says what was left out, and why. */
export async function inBrowser(title: string, tests: (browser: () => Browser) => void): Promise<void> {
  const found = await findBrowser();
  if ("missing" in found) {
    it(`${title}: LEFT OUT, because ${found.missing}`, () => {
      console.warn(`The browser tests "${title}" did not run: ${found.missing}.`);
    });
    return;
  }
  describe(title, () => {
    let browser: Browser | undefined;
    beforeAll(async () => {
      browser = await launchBrowser(found.program);
    });
    afterAll(() => browser?.close());
    tests(() => {
      if (!browser) throw new Error("the browser is not open yet");
      return browser;
    });
  });
}
