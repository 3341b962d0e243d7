import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { invitation, ownerLink } from "../../scripts/lib/owner-link.ts";
import { systemClock, systemRandom } from "../../src/protocol/ports.ts";
import { newPerson, openLink, type Person } from "../support/browser.ts";
import { inBrowser } from "../support/browser-suite.ts";
import { startTestEndpoint, type TestEndpoint } from "../support/endpoint.ts";

const ports = { clock: systemClock, random: systemRandom };

let endpoint: TestEndpoint;
let links: string[];
let invited: string;
const people: Person[] = [];

async function setUp(): Promise<void> {
  endpoint = await startTestEndpoint(async (accountId) => {
    const made = await Promise.all([1, 2, 3].map(() => ownerLink({ accountId }, ports)));
    const guest = await invitation(ports);
    links = made.map(({ code }) => code);
    invited = guest.code;
    return [...made.flatMap(({ sql }) => sql), ...guest.sql];
  });
}
async function closePages(): Promise<void> {
  for (const person of people.splice(0)) await person.close();
}

const button = (page: Page, name: string) => page.getByRole("button", { name });
const signOut = (page: Page) => button(page, "Sign out").click();
const rowOf = (page: Page, name: string) => page.getByRole("listitem", { name, exact: true });

async function signInByPasskey(page: Page): Promise<void> {
  await page.goto(`${endpoint.url}/sign-in`);
  await button(page, "Sign in with a passkey").click();
  await page.waitForURL("**/account");
}
async function addPasskey(page: Page, name: string): Promise<void> {
  await page.getByLabel("Name of the new passkey").fill(name);
  await button(page, "Add a passkey").click();
  await rowOf(page, name).waitFor();
}

await inBrowser("An owner in a browser", (browser) => {
  beforeAll(setUp);
  afterEach(closePages);
  afterAll(() => endpoint?.stop());
  const open = async (which: Browser = browser()): Promise<Person> => {
    const person = await newPerson(which);
    people.push(person);
    return person;
  };

  it("signs in by a one-time link, whose code leaves the address bar before anything is sent, once", async () => {
    const { page } = await open();
    const asked: string[] = [];
    page.on("request", (request) => asked.push(request.url()));
    const [code = ""] = links;
    await page.goto(`${endpoint.url}/sign-in#${code}`);
    expect(await page.getByLabel("One-time code").inputValue()).toBe(code);
    expect(page.url()).toBe(`${endpoint.url}/sign-in`);
    // The button has the focus: Enter is enough.
    await page.keyboard.press("Enter");
    await page.waitForURL("**/account");
    expect(await page.getByRole("heading", { level: 1 }).textContent()).toBe("Owner");
    expect(asked.join()).not.toContain(code);
    const cookies = await page.context().cookies();
    expect(cookies).toMatchObject([{ name: "session", httpOnly: true, sameSite: "Lax" }]);

    const second = await open();
    await second.page.goto(`${endpoint.url}/sign-in#${code}`);
    await button(second.page, "Sign in with the code").click();
    expect(await second.page.getByRole("alert").textContent()).toContain("wrong, used or expired");
  });

  it("signs up by invitation with a passkey, comes back with it, adds a second one and comes back with that alone", async () => {
    const { page, addAuthenticator } = await open();
    const phone = await addAuthenticator();
    await page.goto(`${endpoint.url}/sign-up#${invited}`);
    await page.getByLabel("Your name").fill("Grace");
    await button(page, "Sign up with a passkey").click();
    await page.waitForURL("**/account");
    expect(await page.getByRole("heading", { level: 1 }).textContent()).toBe("Grace");
    await signOut(page);
    await signInByPasskey(page);

    // The device that has a passkey is not given another.
    await page.getByLabel("Name of the new passkey").fill("Again");
    await button(page, "Add a passkey").click();
    expect(await page.getByRole("alert").textContent()).toContain("has a passkey for the account already");

    await phone.lose();
    await addAuthenticator();
    await page.reload();
    await addPasskey(page, "Laptop");
    await rowOf(page, "First passkey").getByRole("button", { name: "Remove" }).click();
    await rowOf(page, "First passkey").waitFor({ state: "detached" });
    await signOut(page);
    await signInByPasskey(page);
    expect(await rowOf(page, "Laptop").textContent()).toContain("last used just now");
  });

  it("is told that an invitation is used, before the device makes a passkey", async () => {
    const { page, addAuthenticator } = await open();
    await addAuthenticator();
    await page.goto(`${endpoint.url}/sign-up#${invited}`);
    await page.getByLabel("Your name").fill("Late");
    await button(page, "Sign up with a passkey").click();
    expect(await page.getByRole("alert").textContent()).toContain("invitation is wrong, used or expired");
  });

  it("who lost the device with the passkey comes back by the operator's link, removes it and adds another", async () => {
    const { page, addAuthenticator } = await open();
    const lost = await addAuthenticator();
    await openLink(page, endpoint.url, links[1] ?? "");
    await addPasskey(page, "Old phone");
    await signOut(page);
    await lost.lose();
    await addAuthenticator();
    await page.goto(`${endpoint.url}/sign-in`);
    await button(page, "Sign in with a passkey").click();
    expect(await page.getByRole("alert").textContent()).toBe("No passkey was used. Try again.");

    await openLink(page, endpoint.url, links[2] ?? "");
    await rowOf(page, "Old phone").getByRole("button", { name: "Remove" }).click();
    await rowOf(page, "Old phone").waitFor({ state: "detached" });
    await addPasskey(page, "New phone");
    await signOut(page);
    await signInByPasskey(page);
    expect(await page.getByRole("heading", { level: 1 }).textContent()).toBe("Owner");
  });

  it("who left an account page open is led back to it by the sign-in", async () => {
    const { page } = await open();
    await page.goto(`${endpoint.url}/account/activity`);
    expect(page.url()).toBe(`${endpoint.url}/sign-in?return_to=%2Faccount%2Factivity`);
  });
});
